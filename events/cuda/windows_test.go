package cuda_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
)

// dll is the imitation of the runtime that scripts/test-windows builds.
func dll(t *testing.T) string {
	t.Helper()
	path := os.Getenv("DEVEVENTS_TEST_DLL")
	if path == "" {
		t.Skip("needs an imitation of the runtime as a DLL: run scripts/test-windows")
	}
	return path
}

func TestDLLRecordWaitAndElapsed(t *testing.T) {
	rt, err := cuda.Open(cuda.WithLibrary(dll(t)))
	require.NoError(t, err)
	require.Equal(t, filepath.Base(dll(t)), filepath.Base(rt.Info().Library))
	require.Equal(t, "13.0", rt.Info().RuntimeVersionText)
	dev, err := rt.Device(0)
	require.NoError(t, err)

	var wg sync.WaitGroup
	for range 64 { // fresh goroutines: an out-parameter on a stack would be lost
		wg.Go(func() {
			s, err := dev.StreamCreateNonBlocking()
			if err != nil {
				t.Error(err)
				return
			}
			start, err := dev.EventCreate()
			if err != nil {
				t.Error(err)
				return
			}
			end, err := dev.EventCreate()
			if err != nil {
				t.Error(err)
				return
			}
			_, err = dev.EventElapsed(start, end)
			if err == nil {
				t.Error("events that were never recorded have a span")
			}
			for _, err := range []error{
				dev.EventRecord(start, s), dev.EventRecord(end, s), dev.EventWait(end),
				dev.StreamWaitEvent(s, end), dev.StreamSynchronize(s),
			} {
				if err != nil {
					t.Error(err)
				}
			}
			done, err := dev.EventQuery(end)
			if err != nil || !done {
				t.Errorf("query: %v, %v", done, err)
			}
			span, err := dev.EventElapsed(start, end)
			if err != nil || span < 0 || span > time.Second {
				t.Errorf("elapsed: %v, %v", span, err)
			}
			for _, err := range []error{dev.EventDestroy(start), dev.EventDestroy(end), dev.EventDestroy(end), dev.StreamDestroy(s)} {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	st := dev.EventStats()
	require.Zero(t, st.LiveEvents)
	require.Zero(t, st.LiveStreams)
}

func TestDLLOnThePathIsFound(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(dll(t))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	rt, err := cuda.Open()
	require.NoError(t, err)
	require.Equal(t, filepath.Base(dll(t)), filepath.Base(rt.Info().Library))
}

func TestMissingDLLIsNamed(t *testing.T) {
	missing := filepath.Join(filepath.Dir(dll(t)), "cudart64_12.dll")
	_, err := cuda.Open(cuda.WithLibrary(missing))
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.ErrorContains(t, err, "cudart64_12.dll")
}
