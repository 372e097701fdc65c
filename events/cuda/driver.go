package cuda

import (
	"strings"

	"example.com/devevents/events/internal/cfamily"
	"example.com/devevents/events/internal/dl"
)

// driverTable spells the family's functions as libcuda does, which every machine
// with a driver has. The functions are the same under other names; all of them
// need the device's context current on the calling thread.
func driverTable() *cfamily.Table {
	t := runtimeTable()
	t.API = "driver"
	t.Library = t.Driver
	t.Driver = dl.Spec{}
	t.Prefer = nil
	t.AlwaysPin = true
	t.Codes = driverCodes(t.Codes)
	need := func(name string) cfamily.Symbol { return cfamily.Symbol{Name: name} }
	may := func(name string) cfamily.Symbol { return cfamily.Symbol{Name: name, Need: cfamily.Optional} }
	for op, s := range t.Symbols {
		if s.From == cfamily.FromDriver {
			t.Symbols[op] = may(s.Name)
		} else {
			delete(t.Symbols, op)
		}
	}
	for op, s := range map[cfamily.Op]cfamily.Symbol{
		cfamily.OpInit:          need("cuInit"),
		cfamily.OpContextGet:    need("cuCtxGetCurrent"),
		cfamily.OpContextSet:    need("cuCtxSetCurrent"),
		cfamily.OpPrimaryRetain: need("cuDevicePrimaryCtxRetain"),

		cfamily.OpEventCreate:    need("cuEventCreate"),
		cfamily.OpEventDestroy:   need("cuEventDestroy_v2"),
		cfamily.OpEventRecord:    need("cuEventRecord"),
		cfamily.OpEventRecordExt: may("cuEventRecordWithFlags"),
		cfamily.OpEventQuery:     need("cuEventQuery"),
		cfamily.OpEventWait:      need("cuEventSynchronize"),
		cfamily.OpEventElapsed:   need("cuEventElapsedTime"),
		cfamily.OpStreamCreate:   need("cuStreamCreate"),
		cfamily.OpStreamDestroy:  need("cuStreamDestroy_v2"),
		cfamily.OpStreamSync:     need("cuStreamSynchronize"),
		cfamily.OpStreamWait:     need("cuStreamWaitEvent"),
		cfamily.OpCapturing:      may("cuStreamIsCapturing"),
		cfamily.OpCaptureBegin:   may("cuStreamBeginCapture_v2"),
		cfamily.OpCaptureEnd:     may("cuStreamEndCapture"),
		cfamily.OpGraphInstance:  may("cuGraphInstantiateWithFlags"),
		cfamily.OpGraphLaunch:    may("cuGraphLaunch"),
		cfamily.OpGraphExecFree:  may("cuGraphExecDestroy"),
		cfamily.OpGraphFree:      may("cuGraphDestroy"),
		cfamily.OpDeviceCount:    need("cuDeviceGetCount"),
		cfamily.OpDevicePCI:      may("cuDeviceGetPCIBusId"),
		cfamily.OpRuntimeVersion: need("cuDriverGetVersion"),
		cfamily.OpDriverVersion:  need("cuDriverGetVersion"),
		cfamily.OpProfilerStart:  may("cuProfilerStart"),
		cfamily.OpProfilerStop:   may("cuProfilerStop"),
	} {
		t.Symbols[op] = s
	}
	return t
}

// driverNamesOf are the codes that the driver names by other words than the
// runtime; the others differ only in how they are written.
var driverNamesOf = map[int32]string{
	0:   "CUDA_SUCCESS",
	2:   "CUDA_ERROR_OUT_OF_MEMORY",
	3:   "CUDA_ERROR_NOT_INITIALIZED",
	4:   "CUDA_ERROR_DEINITIALIZED",
	46:  "CUDA_ERROR_DEVICE_UNAVAILABLE",
	200: "CUDA_ERROR_INVALID_IMAGE",
	201: "CUDA_ERROR_INVALID_CONTEXT",
	209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
	214: "CUDA_ERROR_ECC_UNCORRECTABLE",
	400: "CUDA_ERROR_INVALID_HANDLE",
	500: "CUDA_ERROR_NOT_FOUND",
	708: "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
	719: "CUDA_ERROR_LAUNCH_FAILED",
}

// driverCodes respells the runtime's names: cudaErrorInvalidValue is
// CUDA_ERROR_INVALID_VALUE to the driver.
func driverCodes(runtime map[int32]string) map[int32]string {
	out := make(map[int32]string, len(runtime))
	for code, name := range runtime {
		if known, ok := driverNamesOf[code]; ok {
			out[code] = known
			continue
		}
		var b strings.Builder
		b.WriteString("CUDA_ERROR")
		last := rune(0)
		for _, r := range strings.TrimPrefix(name, "cudaError") {
			if upper := r >= 'A' && r <= 'Z'; upper && !(last >= 'A' && last <= 'Z') {
				b.WriteByte('_')
			}
			b.WriteRune(r)
			last = r
		}
		out[code] = strings.ToUpper(b.String())
	}
	return out
}
