package cuda

import (
	"slices"
	"strconv"
	"strings"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/cfamily"
	"example.com/devevents/events/internal/dl"
	"example.com/devevents/events/internal/nvml"
)

// runtimeTable spells the family's functions as libcudart does. Only functions whose
// arguments have never changed from CUDA 11 to 13 are named; of the driver
// library, whose plain names are frozen old versions, the suffixed ones.
func runtimeTable() *cfamily.Table {
	rt := func(name string) cfamily.Symbol { return cfamily.Symbol{Name: name} }
	rtOpt := func(name string) cfamily.Symbol { return cfamily.Symbol{Name: name, Need: cfamily.Optional} }
	drv := func(name string) cfamily.Symbol {
		return cfamily.Symbol{Name: name, From: cfamily.FromDriver, Need: cfamily.Optional}
	}
	return &cfamily.Table{
		Backend: "cuda",
		Label:   "CUDA",
		Vendor:  "NVIDIA",
		API:     "runtime",
		Library: dl.Spec{
			Backend: "cuda",
			Names:   runtimeNames(),
			Stem:    runtimeStem,
			Env:     "DEVEVENTS_CUDART",
			Dirs:    dl.CUDADirs(),
		},
		Driver: dl.Spec{
			Backend: "cuda",
			Names:   driverNames(),
			Env:     "DEVEVENTS_CUDA_DRIVER",
			Dirs:    dl.DriverDirs(),
		},
		Prefer:      prefer,
		VersionText: versionText,
		Codes:       codes,
		Kind:        kind,
		SpinProgram: spinProgram,
		SpinKernel:  "devevents_spin",
		AskKernel:   "devevents_ask",
		EmptyKernel: "devevents_empty",
		ReadKernel:  "devevents_read",

		CacheAttribute: 38, // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
		Telemetry:      telemetry,

		BlockingUntimed: blockingSync | disableTiming,

		Symbols: map[cfamily.Op]cfamily.Symbol{
			cfamily.OpEventCreate:    rt("cudaEventCreateWithFlags"),
			cfamily.OpEventDestroy:   rt("cudaEventDestroy"),
			cfamily.OpEventRecord:    rt("cudaEventRecord"),
			cfamily.OpEventRecordExt: rtOpt("cudaEventRecordWithFlags"),
			cfamily.OpEventQuery:     rt("cudaEventQuery"),
			cfamily.OpEventWait:      rt("cudaEventSynchronize"),
			cfamily.OpEventElapsed:   rt("cudaEventElapsedTime"),
			cfamily.OpStreamCreate:   rt("cudaStreamCreateWithFlags"),
			cfamily.OpStreamDestroy:  rt("cudaStreamDestroy"),
			cfamily.OpStreamSync:     rt("cudaStreamSynchronize"),
			cfamily.OpStreamWait:     rt("cudaStreamWaitEvent"),
			cfamily.OpCapturing:      rtOpt("cudaStreamIsCapturing"),
			cfamily.OpCaptureBegin:   rtOpt("cudaStreamBeginCapture"),
			cfamily.OpCaptureEnd:     rtOpt("cudaStreamEndCapture"),
			cfamily.OpGraphInstance:  rtOpt("cudaGraphInstantiateWithFlags"),
			cfamily.OpGraphLaunch:    rtOpt("cudaGraphLaunch"),
			cfamily.OpGraphExecFree:  rtOpt("cudaGraphExecDestroy"),
			cfamily.OpGraphFree:      rtOpt("cudaGraphDestroy"),
			cfamily.OpDeviceCount:    rt("cudaGetDeviceCount"),
			cfamily.OpDevicePCI:      rtOpt("cudaDeviceGetPCIBusId"),
			cfamily.OpRuntimeVersion: rt("cudaRuntimeGetVersion"),
			cfamily.OpDriverVersion:  rt("cudaDriverGetVersion"),
			cfamily.OpLastErrorPeek:  rt("cudaPeekAtLastError"),
			cfamily.OpLastErrorClear: rt("cudaGetLastError"),
			cfamily.OpErrorName:      rtOpt("cudaGetErrorName"),
			cfamily.OpProfilerStart:  rtOpt("cudaProfilerStart"),
			cfamily.OpProfilerStop:   rtOpt("cudaProfilerStop"),

			cfamily.OpInit:           drv("cuInit"),
			cfamily.OpBelowVersion:   drv("cuDriverGetVersion"),
			cfamily.OpDeviceName:     drv("cuDeviceGetName"),
			cfamily.OpDeviceUUID:     drv("cuDeviceGetUuid_v2"),
			cfamily.OpExchangeMode:   drv("cuThreadExchangeStreamCaptureMode"),
			cfamily.OpContextGet:     drv("cuCtxGetCurrent"),
			cfamily.OpContextSet:     drv("cuCtxSetCurrent"),
			cfamily.OpPrimaryRetain:  drv("cuDevicePrimaryCtxRetain"),
			cfamily.OpPrimaryRelease: drv("cuDevicePrimaryCtxRelease_v2"),
			cfamily.OpPrimaryState:   drv("cuDevicePrimaryCtxGetState"),
			cfamily.OpAttribute:      drv("cuDeviceGetAttribute"),
			cfamily.OpContextSync:    drv("cuCtxSynchronize"),
			cfamily.OpResetLines:     drv("cuCtxResetPersistingL2Cache"),
			cfamily.OpMalloc:         drv("cuMemAlloc_v2"),
			cfamily.OpFree:           drv("cuMemFree_v2"),
			cfamily.OpMemset:         drv("cuMemsetD8Async"),
			cfamily.OpCopy:           drv("cuMemcpyDtoDAsync_v2"),
			cfamily.OpHostAlloc:      drv("cuMemHostAlloc"),
			cfamily.OpHostAddress:    drv("cuMemHostGetDevicePointer_v2"),
			cfamily.OpHostFree:       drv("cuMemFreeHost"),
			cfamily.OpModuleLoad:     drv("cuModuleLoadData"),
			cfamily.OpModuleFunction: drv("cuModuleGetFunction"),
			cfamily.OpModuleUnload:   drv("cuModuleUnload"),
			cfamily.OpLaunch:         drv("cuLaunchKernel"),
			cfamily.OpWaitValue:      drv("cuStreamWaitValue32_v2"),
		},
	}
}

// telemetry is the driver's management library, which is loaded when first asked for.
func telemetry(id events.Identity) (events.Telemetry, error) { return nvml.Find(id) }

// The flags of an event.
const (
	blockingSync  = 1
	disableTiming = 2
)

// prefer puts the runtimes first that the driver supports, newest first. A
// driver that is too old for a runtime makes every call of it fail.
func prefer(names []string, driver int) []string {
	if driver == 0 {
		return names
	}
	supported := func(name string) bool { return majorOf(name) <= driver/1000 }
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int {
		switch sa, sb := supported(a), supported(b); {
		case sa == sb:
			return 0
		case sa:
			return -1
		}
		return 1
	})
	return sorted
}

// majorOf reads the runtime's major version from its file name; 0 if it has none.
func majorOf(name string) int {
	rest, ok := strings.CutPrefix(name, runtimeStem)
	if !ok {
		return 0
	}
	digits := rest
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = rest[:i]
	}
	major, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	if major >= 100 { // cudart64_110.dll is 11.0
		major /= 10
	}
	return major
}

// versionText spells 13000 as 13.0.
func versionText(v int) string {
	return strconv.Itoa(v/1000) + "." + strconv.Itoa(v%1000/10)
}

// kind sorts CUDA's codes. The numbers are those of CUDA 10.1 and later.
func kind(code int32) error {
	switch code {
	case 600:
		return events.ErrNotReady
	case 1, 101, 400, 401:
		return events.ErrInvalid
	case 2: // out of memory
		return events.ErrFull
	case 4:
		return events.ErrClosed
	case 3, 34, 35, 36, 100, 127, 802, 803, 804:
		return events.ErrUnavailable
	case 801:
		return events.ErrUnsupported
	case 46, 201, 709:
		return events.ErrContextLost
	case 900, 901, 902, 903, 904, 905, 906, 907, 908:
		return events.ErrCapturing
	case 214, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721:
		return events.ErrDeviceFault
	}
	return nil
}

// spinProgram keeps one thread busy until the device's own timer has moved on
// by ns, then stores the first and the last reading, in one transaction and
// without a barrier, which would keep the kernel on the device for about another
// microsecond. The oldest version and
// target that hold the timer, so that every driver of CUDA 11 and later
// compiles it. The kernel that reads puts a word back where it came from if all that it
// has read comes to a certain sum: a compiler leaves out loads that nothing depends on, and
// moves those on which only a flag's branch does into the branch (seen on an H200).
const spinProgram = `.version 6.0
.target sm_50
.address_size 64
.visible .entry devevents_spin(.param .u64 ns, .param .u64 out)
{
	.reg .u64 %r<6>;
	.reg .pred %p;
	ld.param.u64 %r1, [ns];
	ld.param.u64 %r2, [out];
	cvta.to.global.u64 %r2, %r2;
	mov.u64 %r3, %globaltimer;
again:
	mov.u64 %r4, %globaltimer;
	sub.u64 %r5, %r4, %r3;
	setp.lt.u64 %p, %r5, %r1;
	@%p bra again;
	st.volatile.global.v2.u64 [%r2], {%r3, %r4};
	ret;
}
.visible .entry devevents_empty()
{
	ret;
}
.visible .entry devevents_read(.param .u64 from, .param .u64 bytes)
{
	.reg .u64 %r<8>;
	.reg .u32 %t<5>;
	.reg .u32 %v<17>;
	.reg .pred %p<5>;
	ld.param.u64 %r1, [from];
	ld.param.u64 %r2, [bytes];
	cvta.to.global.u64 %r1, %r1;
	and.b64 %r3, %r2, -16;
	mov.u32 %t1, %ctaid.x;
	mov.u32 %t2, %ntid.x;
	mov.u32 %t3, %tid.x;
	mul.wide.u32 %r4, %t1, %t2;
	cvt.u64.u32 %r5, %t3;
	add.u64 %r4, %r4, %r5;
	shl.b64 %r4, %r4, 4;
	mov.u32 %t1, %nctaid.x;
	mul.wide.u32 %r5, %t1, %t2;
	shl.b64 %r5, %r5, 4;
	add.u64 %r7, %r1, %r4;
	mov.u32 %t4, 0;
	mov.u32 %v1, 0;
	mov.u32 %v2, 0;
	mov.u32 %v3, 0;
	mov.u32 %v4, 0;
	mov.u32 %v5, 0;
	mov.u32 %v6, 0;
	mov.u32 %v7, 0;
	mov.u32 %v8, 0;
	mov.u32 %v9, 0;
	mov.u32 %v10, 0;
	mov.u32 %v11, 0;
	mov.u32 %v12, 0;
	mov.u32 %v13, 0;
	mov.u32 %v14, 0;
	mov.u32 %v15, 0;
	mov.u32 %v16, 0;
	setp.lt.u64 %p1, %r4, %r3;
	add.u64 %r6, %r1, %r4;
	@%p1 ld.global.v4.u32 {%v1, %v2, %v3, %v4}, [%r6];
	add.u64 %r4, %r4, %r5;
	setp.lt.u64 %p2, %r4, %r3;
	add.u64 %r6, %r1, %r4;
	@%p2 ld.global.v4.u32 {%v5, %v6, %v7, %v8}, [%r6];
	add.u64 %r4, %r4, %r5;
	setp.lt.u64 %p3, %r4, %r3;
	add.u64 %r6, %r1, %r4;
	@%p3 ld.global.v4.u32 {%v9, %v10, %v11, %v12}, [%r6];
	add.u64 %r4, %r4, %r5;
	setp.lt.u64 %p4, %r4, %r3;
	add.u64 %r6, %r1, %r4;
	@%p4 ld.global.v4.u32 {%v13, %v14, %v15, %v16}, [%r6];
	xor.b32 %t4, %t4, %v1;
	xor.b32 %t4, %t4, %v2;
	xor.b32 %t4, %t4, %v3;
	xor.b32 %t4, %t4, %v4;
	xor.b32 %t4, %t4, %v5;
	xor.b32 %t4, %t4, %v6;
	xor.b32 %t4, %t4, %v7;
	xor.b32 %t4, %t4, %v8;
	xor.b32 %t4, %t4, %v9;
	xor.b32 %t4, %t4, %v10;
	xor.b32 %t4, %t4, %v11;
	xor.b32 %t4, %t4, %v12;
	xor.b32 %t4, %t4, %v13;
	xor.b32 %t4, %t4, %v14;
	xor.b32 %t4, %t4, %v15;
	xor.b32 %t4, %t4, %v16;
	setp.eq.and.u32 %p1, %t4, 2654435769, %p1;
	@%p1 st.global.u32 [%r7], %v1;
	ret;
}
.visible .entry devevents_ask(.param .u64 flag, .param .u64 out)
{
	.reg .u64 %r<6>;
	.reg .u32 %v;
	.reg .pred %p;
	ld.param.u64 %r1, [flag];
	ld.param.u64 %r2, [out];
	cvta.to.global.u64 %r1, %r1;
	cvta.to.global.u64 %r2, %r2;
	mov.u64 %r3, %globaltimer;
	st.volatile.global.u64 [%r2], %r3;
	membar.sys;
wait:
	mov.u64 %r4, %globaltimer;
	ld.volatile.global.u32 %v, [%r1];
	setp.ne.u32 %p, %v, 0;
	@%p bra answer;
	sub.u64 %r5, %r4, %r3;
	setp.lt.u64 %p, %r5, 1000000000;
	@%p bra wait;
answer:
	mov.u64 %r4, %globaltimer;
	st.volatile.global.u64 [%r2+8], %r4;
	membar.sys;
	ret;
}
`
