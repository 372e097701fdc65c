package cuda_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
)

// refused is what a record says that the library refuses with a code. The opening
// is another one afterwards, since the code may be a fault.
func (r *rig) refused(t testing.TB, code int32) *events.DriverError {
	t.Helper()
	s, e := r.stream(t), r.event(t)
	restore := r.fail("EventRecord", code)
	err := r.dev.EventRecord(e, s)
	restore()
	var driver *events.DriverError
	require.ErrorAs(t, err, &driver, "code %d", code)
	require.Equal(t, code, driver.Code)
	require.Equal(t, "cuda", driver.Backend)
	require.Equal(t, r.fn("EventRecord"), driver.Op)
	require.ErrorContains(t, err, r.fn("EventRecord")+": ")
	require.ErrorContains(t, err, fmt.Sprintf(" (%d)", code))
	require.NoError(t, r.dev.EventDestroy(e))
	require.NoError(t, r.dev.StreamDestroy(s))
	if errors.Is(err, events.ErrDeviceFault) {
		r.reopen(t)
	}
	return driver
}

// Names and numbers come from a table of our own: the library may be the thing that
// does not work. NVIDIA/go-nvml#82, NVIDIA/go-nvml#99, NVIDIA/go-nvml#47
func TestErrorsHaveNameAndNumberWithoutTheLibrary(t *testing.T) {
	for driver, codes := range map[bool]map[int32]string{false: cuda.Codes(), true: cuda.DriverCodes()} {
		r := open(t, 1, driver)
		r.ctl.Set("null_error_strings", 1)
		require.Greater(t, len(codes), 70)
		for _, code := range slices.Sorted(maps.Keys(codes)) {
			if code == 0 {
				continue
			}
			err := r.refused(t, code)
			require.Equal(t, codes[code], err.Name)
			require.ErrorContains(t, err, codes[code]+" (")
			require.Equal(t, cuda.Kind(code), err.Kind)
		}
		for _, code := range []int32{4711, 5, -2, math.MaxInt32, math.MinInt32} {
			require.ErrorContains(t, r.refused(t, code), fmt.Sprintf("unknown code (%d)", code))
		}
	}
}

// A library that is newer than the table knows more names; what it says to a code
// that it does not know is no name.
func TestLibraryNamesTheCodesThatAreNewerThanTheTable(t *testing.T) {
	r := open(t, 1, false)
	r.ctl.Set("named_code", 12345)
	require.ErrorContains(t, r.refused(t, 12345), "cudaErrorFromTheFuture (12345)")
	require.ErrorContains(t, r.refused(t, 54321), "unknown code (54321)")
	require.Zero(t, r.ctl.Get("calls_cudaGetErrorString"))
	require.Equal(t, int64(2), r.ctl.Get("calls_cudaGetErrorName"))
	require.Equal(t, "cudaErrorInvalidResourceHandle", r.refused(t, 400).Name)
	require.Equal(t, int64(2), r.ctl.Get("calls_cudaGetErrorName"), "the table comes first")
}

// Each code that a reader can do something about has its sentinel, in both
// spellings.
func TestCodesHaveTheirSentinels(t *testing.T) {
	for kind, codes := range map[error][]int32{
		events.ErrInvalid:     {1, 101, 400},
		events.ErrNotReady:    {600},
		events.ErrFull:        {2},
		events.ErrUnsupported: {801},
		events.ErrContextLost: {46, 201, 709},
		events.ErrUnavailable: {3, 34, 35, 36, 100, 802, 803, 804},
		events.ErrCapturing:   {900, 901, 902, 903, 904, 905, 906, 907, 908},
		events.ErrDeviceFault: {214, 700, 702, 710, 714, 715, 716, 717, 718, 719},
	} {
		for _, code := range codes {
			require.ErrorIs(t, cuda.Kind(code), kind, "%d", code)
			require.NotEmpty(t, cuda.Codes()[code])
			require.Regexp(t, "^CUDA_ERROR_[A-Z_]+$", cuda.DriverCodes()[code])
		}
	}
	for _, code := range []int32{0, 98, 500, 701, 720, 800, 909, 999, 4711, -1} {
		require.NoError(t, cuda.Kind(code), "%d", code)
	}
}

// A C int fills half a register; what is above it is garbage. ebitengine/purego#176
func TestGarbageAboveAReturnedCodeIsIgnored(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		r.ctl.Set("dirty_upper", 1)
		r.reopen(t) // versions and the count are codes too
		s := r.stream(t)
		e := r.complete(t, s)
		done, err := r.dev.EventQuery(e)
		require.NoError(t, err)
		require.True(t, done)
		_, err = r.dev.EventElapsed(r.event(t), e)
		require.ErrorContains(t, err, "(400)")
		require.ErrorIs(t, err, events.ErrNotRecorded)

		r.ctl.Hold(s.Handle())
		require.NoError(t, r.dev.EventRecord(e, s))
		done, err = r.dev.EventQuery(e)
		require.NoError(t, err, "600 with garbage above it is still not ready")
		require.False(t, done)
		r.ctl.Release(s.Handle())
		require.Equal(t, int32(-2), r.refused(t, -2).Code)
	})
}
