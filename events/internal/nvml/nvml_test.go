package nvml

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/fakert"
)

var gpu = events.Identity{UUID: "GPU-0102", PCIBusID: "0000:4e:00.0"}

// imitation is a library of the test's own, which the environment names.
func imitation(t *testing.T, opts ...fakert.Option) *fakert.Runtime {
	t.Helper()
	path := fakert.Build(t, append(opts, fakert.NVML())...)
	t.Setenv(Env, path)
	ctl := fakert.Control(t, path)
	for key, value := range map[string]int64{
		"sm_clock": 1980, "memory_clock": 3201, "reasons": 0x24, "temperature": 41, "power": 312_000,
		"energy": 1 << 40, "power_violation": 5_000_000, "thermal_violation": 7_000,
	} {
		ctl.Set(key, value)
	}
	return ctl
}

var whole = events.TelemetryReading{
	Has: events.TelemetrySMClock | events.TelemetryMemoryClock | events.TelemetryThrottle | events.TelemetryTemperature |
		events.TelemetryPower | events.TelemetryEnergy | events.TelemetryPowerLimited | events.TelemetryHeatLimited,
	SMClock: 1980, MemoryClock: 3201, Throttle: events.ThrottlePowerCap | events.ThrottleSoftwareThermal,
	Temperature: 41, Power: 312_000, Energy: 1 << 40, PowerLimited: 5 * time.Millisecond, HeatLimited: 7 * time.Microsecond,
}

func TestReadingHasWhatTheLibraryGives(t *testing.T) {
	imitation(t)
	d, err := Find(gpu)
	require.NoError(t, err)
	r, err := d.TelemetryRead()
	require.NoError(t, err)
	require.Equal(t, whole, r)
}

// The library counts devices in another order than the runtime, and those too that
// a visibility variable hides. The imitation ends the process when it is asked by index.
func TestDeviceIsFoundByItsUUIDAndElseByItsPlaceOnTheBus(t *testing.T) {
	ctl := imitation(t)
	_, err := Find(gpu)
	require.NoError(t, err)
	require.Equal(t, gpu.UUID, ctl.CallText("fake_asked"))

	ctl.Set("fail_nvmlDeviceGetHandleByUUID", 6)
	_, err = Find(gpu)
	require.NoError(t, err)
	require.Equal(t, gpu.PCIBusID, ctl.CallText("fake_asked"))

	ctl.Set("fail_nvmlDeviceGetHandleByPciBusId_v2", 6)
	_, err = Find(gpu)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.ErrorContains(t, err, gpu.PCIBusID)
	require.ErrorContains(t, err, "NVML_ERROR_NOT_FOUND (6)")

	_, err = Find(events.Identity{Ordinal: 0})
	require.ErrorIs(t, err, events.ErrUnavailable, "a number alone names no device")
}

func TestLibraryIsInitialisedOnce(t *testing.T) {
	ctl := imitation(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			d, err := Find(gpu)
			if err == nil {
				_, err = d.TelemetryRead()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(1), ctl.Get("calls_nvmlInit_v2"))
}

// A refusal at the start is said with its code, and tried again by the next device: the
// driver may be there by then.
func TestRefusedStartSaysWhyAndIsNotKept(t *testing.T) {
	for code, cause := range map[int64]events.Cause{
		9: events.CauseDriverMissing, 18: events.CauseSystemNotReady, 4: events.CauseDriverError, 12345: events.CauseDriverError,
	} {
		ctl := imitation(t)
		ctl.Set("fail_nvmlInit_v2", code)
		_, err := Find(gpu)
		var u *events.UnavailableError
		require.ErrorAs(t, err, &u)
		require.Equal(t, cause, u.Cause)
		require.Equal(t, int32(code), u.Code)
		ctl.Set("fail_nvmlInit_v2", 0)
		_, err = Find(gpu)
		require.NoError(t, err)
	}
}

func TestMissingLibraryOrSymbolSaysWhich(t *testing.T) {
	t.Setenv(Env, t.TempDir()+"/libnvidia-ml.so.1")
	_, err := Find(gpu)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.ErrorContains(t, err, Env)

	imitation(t, fakert.Omit("nvmlInit_v2"))
	_, err = Find(gpu)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.ErrorContains(t, err, "nvmlInit_v2")

	imitation(t, fakert.Omit("nvmlDeviceGetHandleByUUID", "nvmlDeviceGetHandleByPciBusId_v2"))
	_, err = Find(gpu)
	require.ErrorContains(t, err, "nvmlDeviceGetHandleByUUID")

	imitation(t, fakert.Omit("nvmlDeviceGetHandleByUUID"))
	_, err = Find(gpu)
	require.NoError(t, err, "one of the two is enough")
}

// A symbol that an old library lacks takes its field away and nothing else; so does a
// refusal, and an answer that stands for "not available".
// chelsea0x3b/cudarc#422, NVIDIA/go-nvlib#87
func TestWhatCannotBeReadIsAbsentAlone(t *testing.T) {
	for function, fields := range map[string]events.TelemetryFields{
		"nvmlDeviceGetClockInfo":              events.TelemetrySMClock | events.TelemetryMemoryClock,
		"nvmlDeviceGetTemperature":            events.TelemetryTemperature,
		"nvmlDeviceGetPowerUsage":             events.TelemetryPower,
		"nvmlDeviceGetTotalEnergyConsumption": events.TelemetryEnergy,
		"nvmlDeviceGetViolationStatus":        events.TelemetryPowerLimited | events.TelemetryHeatLimited,
	} {
		imitation(t, fakert.Omit(function))
		d, err := Find(gpu)
		require.NoError(t, err, function)
		r, err := d.TelemetryRead()
		require.NoError(t, err, function)
		require.Equal(t, whole.Has&^fields, r.Has, function)

		ctl := imitation(t)
		ctl.Set("fail_"+function, int64(notSupported))
		d, err = Find(gpu)
		require.NoError(t, err, function)
		r, err = d.TelemetryRead()
		require.NoError(t, err, function)
		require.Equal(t, whole.Has&^fields, r.Has, function)
	}
	for key, fields := range map[string]events.TelemetryFields{
		"sm_clock": events.TelemetrySMClock, "memory_clock": events.TelemetryMemoryClock, "reasons": events.TelemetryThrottle,
		"temperature": events.TelemetryTemperature, "power": events.TelemetryPower, "energy": events.TelemetryEnergy,
		"power_violation": events.TelemetryPowerLimited, "thermal_violation": events.TelemetryHeatLimited,
	} {
		ctl := imitation(t)
		ctl.Set(key, -1)
		d, err := Find(gpu)
		require.NoError(t, err, key)
		r, err := d.TelemetryRead()
		require.NoError(t, err, key)
		require.Equal(t, whole.Has&^fields, r.Has, key)
	}
}

// The function of the reasons got another name; drivers in use have the one or the other.
func TestReasonsAreReadUnderBothNames(t *testing.T) {
	imitation(t, fakert.Omit("nvmlDeviceGetCurrentClocksEventReasons"))
	d, err := Find(gpu)
	require.NoError(t, err)
	r, err := d.TelemetryRead()
	require.NoError(t, err)
	require.Equal(t, whole.Throttle, r.Throttle)
}

func TestPartOfADeviceIsNotTakenForTheDevice(t *testing.T) {
	ctl := imitation(t)
	ctl.Set("mig", 1)
	_, err := Find(gpu)
	require.ErrorIs(t, err, events.ErrUnsupported)
	require.ErrorContains(t, err, "MIG")

	ctl = imitation(t)
	ctl.Set("fail_nvmlDeviceGetMigMode", int64(notSupported))
	_, err = Find(gpu)
	require.NoError(t, err, "a device that cannot be split")
}

// A device that fell off the bus is an error with the library's word, and no reading of zeros.
func TestLostDeviceIsAnError(t *testing.T) {
	ctl := imitation(t)
	d, err := Find(gpu)
	require.NoError(t, err)
	for _, function := range []string{
		"nvmlDeviceGetClockInfo", "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetCurrentClocksEventReasons",
		"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetViolationStatus",
	} {
		ctl.Set("fail_"+function, 15)
	}
	r, err := d.TelemetryRead()
	require.ErrorIs(t, err, events.ErrDeviceFault)
	require.ErrorContains(t, err, "NVML_ERROR_GPU_IS_LOST (15)")
	require.Zero(t, r)

	_, err = Find(gpu)
	require.ErrorIs(t, err, events.ErrDeviceFault)
}

func TestEveryCodeKeepsItsNumber(t *testing.T) {
	for _, code := range []int32{-1, 1, 29, 30, 999, math.MaxInt32} {
		var driver *events.DriverError
		require.ErrorAs(t, failed(opPower, code), &driver)
		require.Equal(t, code, driver.Code)
		require.Equal(t, "nvmlDeviceGetPowerUsage", driver.Op)
	}
	require.Equal(t, "NVML_ERROR_INVALID_STATE", codeName(29))
	require.Equal(t, "NVML_ERROR_UNKNOWN", codeName(999))
}
