package cfamily

import (
	"example.com/devevents/events"
	"example.com/devevents/events/internal/dl"
)

// Op is one function that the backends of this family share. The vendors spell
// it differently and agree on its arguments.
type Op int

// The functions. Those from the driver library exist only where the vendor has
// one beside its runtime.
const (
	OpEventCreate    Op = iota // (event*, uint32 flags)
	OpEventDestroy             // (event)
	OpEventRecord              // (event, stream)
	OpEventRecordExt           // (event, stream, uint32 flags)
	OpEventQuery               // (event)
	OpEventWait                // (event)
	OpEventElapsed             // (float* ms, event start, event end)
	OpStreamCreate             // (stream*, uint32 flags)
	OpStreamDestroy            // (stream)
	OpStreamSync               // (stream)
	OpStreamWait               // (stream, event, uint32 flags)
	OpCapturing                // (stream, int32* status)
	OpCaptureBegin             // (stream, int32 mode)
	OpCaptureEnd               // (stream, graph*)
	OpGraphInstance            // (exec*, graph, uint64 flags)
	OpGraphLaunch              // (exec, stream)
	OpGraphExecFree            // (exec)
	OpGraphFree                // (graph)

	OpInit           // (uint32 0)
	OpDeviceCount    // (int32*)
	OpDevicePCI      // (char*, int32 length, int32 device)
	OpDeviceName     // (char*, int32 length, int32 device)
	OpDeviceUUID     // (16 bytes*, int32 device)
	OpRuntimeVersion // (int32*)
	OpDriverVersion  // (int32*), asked of the runtime
	OpBelowVersion   // (int32*), asked of the driver library before a runtime is chosen
	OpLastErrorPeek  // ()
	OpLastErrorClear // ()
	OpErrorName      // (int32) char const*
	OpExchangeMode   // (int32* mode, in and out)
	OpGetDevice      // (int32*)
	OpSetDevice      // (int32)
	OpContextGet     // (context*)
	OpContextSet     // (context)
	OpPrimaryRetain  // (context*, int32 device)
	OpPrimaryRelease // (int32 device)
	OpPrimaryState   // (int32 device, uint32* flags, int32* active)
	OpAttribute      // (int32*, int32 attribute, int32 device)
	OpContextSync    // ()
	OpResetLines     // (), of the cache of the current context's device

	OpMalloc         // (address*, size)
	OpFree           // (address)
	OpMemset         // (address, value, size, stream)
	OpCopy           // (address to, address from, size, stream)
	OpHostAlloc      // (void**, size, uint32 flags)
	OpHostAddress    // (address*, void*, uint32 0)
	OpHostFree       // (void*)
	OpModuleLoad     // (module*, text)
	OpModuleFunction // (function*, module, char const*)
	OpModuleUnload   // (module)
	OpLaunch         // cuLaunchKernel
	OpWaitValue      // (stream, address, uint32 value, uint32 flags)

	OpProfilerStart // ()
	OpProfilerStop  // ()

	opCount
)

// Source says which library a symbol lives in.
type Source uint8

// The two libraries of a vendor.
const (
	FromRuntime Source = iota
	FromDriver
)

// Need says what happens when a symbol is absent.
type Need uint8

// Required symbols make a library usable; an optional one switches off what
// needs it.
const (
	Required Need = iota
	Optional
)

// Symbol is how one vendor spells an Op.
type Symbol struct {
	Name string
	From Source
	Need Need
}

// Table is everything in which one vendor differs from another.
type Table struct {
	Backend string // "cuda"
	Label   string // "CUDA", for sentences
	Vendor  string // who makes the devices
	API     string // "runtime" or "driver"
	Symbols map[Op]Symbol

	// Library finds the runtime, Driver the library beneath it; Driver.Names is
	// empty where the vendor has none.
	Library dl.Spec
	Driver  dl.Spec
	// Prefer orders the runtime's names by the driver's version (0: unknown).
	Prefer func(names []string, driver int) []string
	// VersionText spells a version number for people.
	VersionText func(version int) string

	// Codes names the error codes.
	Codes map[int32]string
	// Kind tells which sentinel a code stands for, nil for none.
	Kind func(code int32) error

	// SpinProgram is a program for OpModuleLoad with the kernel SpinKernel
	// (uint64 ns, uint64 address of two uint64); empty where there is none.
	SpinProgram string
	SpinKernel  string
	// AskKernel of the same program (uint64 address of a uint32, uint64 address of two
	// uint64) writes the device's timer to the first of the two, waits until the uint32
	// is not 0, a second at most, and writes the timer to the second; empty where there
	// is none.
	AskKernel string
	// EmptyKernel of the same program does nothing with no parameters; empty where there is
	// none.
	EmptyKernel string
	// ReadKernel of the same program (uint64 address, uint64 bytes) reads so many bytes, of
	// which each of its threads takes 64 at most, and changes none; empty where there is none.
	ReadKernel string
	// CacheAttribute is the number under which OpAttribute gives the bytes of the
	// last-level cache; 0 where there is none.
	CacheAttribute int32

	// Telemetry finds what reads a device's state, which may load another library; nil
	// where nothing here does. The error says why there is none.
	Telemetry func(events.Identity) (events.Telemetry, error)

	// BlockingUntimed are the flags of an event that waits in the driver and is
	// not read for its time.
	BlockingUntimed uint32
	// AlwaysPin makes every call run with the device's context current, also
	// with one visible device.
	AlwaysPin bool
	// ElapsedAfterCapture: elapsed on an event whose last record fell into a
	// capture reads the stamps from before instead of refusing.
	ElapsedAfterCapture bool
}

// Numbers that all vendors of the family share.
const (
	codeSuccess  int32 = 0
	codeNotReady int32 = 600

	codeIllegalState int32 = 401

	codeInsufficientDriver int32 = 35
	codeImplicitCapture    int32 = 906

	flagEventDisableTiming = 2
	flagRecordExternal     = 1
	flagStreamNonBlocking  = 1
	flagHostMapped         = 2 // CU_MEMHOSTALLOC_DEVICEMAP and hipHostMallocMapped
	flagWaitValueGEQ       = 0

	captureNone    int32 = 0
	captureRelaxed int32 = 2
)
