package hip

import (
	"strconv"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/cfamily"
	"example.com/devevents/events/internal/dl"
)

// table spells the family's functions as libamdhip64 does. Only functions whose
// arguments are the same from ROCm 5 to 7 are named.
func table() *cfamily.Table {
	need := func(name string) cfamily.Symbol { return cfamily.Symbol{Name: name} }
	may := func(name string) cfamily.Symbol { return cfamily.Symbol{Name: name, Need: cfamily.Optional} }
	return &cfamily.Table{
		Backend: "hip",
		Label:   "HIP",
		Vendor:  "AMD",
		API:     "runtime",
		Library: dl.Spec{
			Backend: "hip",
			Names:   libraryNames(),
			Stem:    libraryStem,
			Env:     "DEVEVENTS_HIP",
			Dirs:    dl.HIPDirs(),
			OneOnly: true,
		},
		VersionText: versionText,
		Codes:       codes,
		Kind:        kind,
		// Newer runtimes sleep in a wait only for events with this flag alone, older
		// ones never do; that is read in AMD's source, not measured.
		BlockingUntimed:     1,
		ElapsedAfterCapture: true,
		Symbols: map[cfamily.Op]cfamily.Symbol{
			cfamily.OpEventCreate:    need("hipEventCreateWithFlags"),
			cfamily.OpEventDestroy:   need("hipEventDestroy"),
			cfamily.OpEventRecord:    need("hipEventRecord"),
			cfamily.OpEventRecordExt: may("hipEventRecordWithFlags"), // ROCm 6.4
			cfamily.OpEventQuery:     need("hipEventQuery"),
			cfamily.OpEventWait:      need("hipEventSynchronize"),
			cfamily.OpEventElapsed:   need("hipEventElapsedTime"),
			cfamily.OpStreamCreate:   need("hipStreamCreateWithFlags"),
			cfamily.OpStreamDestroy:  need("hipStreamDestroy"),
			cfamily.OpStreamSync:     need("hipStreamSynchronize"),
			cfamily.OpStreamWait:     need("hipStreamWaitEvent"),
			cfamily.OpCapturing:      may("hipStreamIsCapturing"),
			cfamily.OpCaptureBegin:   may("hipStreamBeginCapture"),
			cfamily.OpCaptureEnd:     may("hipStreamEndCapture"),
			cfamily.OpGraphInstance:  may("hipGraphInstantiateWithFlags"),
			cfamily.OpGraphLaunch:    may("hipGraphLaunch"),
			cfamily.OpGraphExecFree:  may("hipGraphExecDestroy"),
			cfamily.OpGraphFree:      may("hipGraphDestroy"),
			cfamily.OpDeviceCount:    need("hipGetDeviceCount"),
			cfamily.OpGetDevice:      need("hipGetDevice"),
			cfamily.OpSetDevice:      need("hipSetDevice"),
			cfamily.OpDevicePCI:      may("hipDeviceGetPCIBusId"),
			cfamily.OpDeviceName:     may("hipDeviceGetName"),
			cfamily.OpDeviceUUID:     may("hipDeviceGetUuid"), // ROCm 5.2
			cfamily.OpRuntimeVersion: need("hipRuntimeGetVersion"),
			cfamily.OpDriverVersion:  may("hipDriverGetVersion"),
			cfamily.OpLastErrorPeek:  may("hipPeekAtLastError"),
			cfamily.OpLastErrorClear: may("hipGetLastError"),
			cfamily.OpErrorName:      may("hipGetErrorName"),
			cfamily.OpExchangeMode:   may("hipThreadExchangeStreamCaptureMode"), // ROCm 5.2
			cfamily.OpMalloc:         may("hipMalloc"),
			cfamily.OpFree:           may("hipFree"),
			cfamily.OpMemset:         may("hipMemsetAsync"),
			cfamily.OpCopy:           may("hipMemcpyDtoDAsync"),
		},
	}
}

// versionText spells 60241134 as 6.2.41134.
func versionText(v int) string {
	return strconv.Itoa(v/10_000_000) + "." + strconv.Itoa(v/100_000%100) + "." + strconv.Itoa(v%100_000)
}

// kind sorts HIP's codes.
func kind(code int32) error {
	switch code {
	case 600:
		return events.ErrNotReady
	case 1, 101, 400, 401, 709: // 709 is also HIP's answer to a stream that does not exist
		return events.ErrInvalid
	case 2: // out of memory
		return events.ErrFull
	case 4:
		return events.ErrClosed
	case 3, 35, 100:
		return events.ErrUnavailable
	case 801:
		return events.ErrUnsupported
	case 46, 201:
		return events.ErrContextLost
	case 900, 901, 902, 903, 904, 905, 906, 907, 908:
		return events.ErrCapturing
	case 214, 700, 702, 710, 719:
		return events.ErrDeviceFault
	}
	return nil
}
