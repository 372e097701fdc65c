package clapi

// OpenCL's handles. Zero is none.
type (
	// Platform is a cl_platform_id.
	Platform uintptr
	// Device is a cl_device_id.
	Device uintptr
	// Context is a cl_context.
	Context uintptr
	// Queue is a cl_command_queue.
	Queue uintptr
	// Event is a cl_event.
	Event uintptr
	// Mem is a cl_mem.
	Mem uintptr
	// Program is a cl_program.
	Program uintptr
	// Kernel is a cl_kernel.
	Kernel uintptr
)

// API is the part of OpenCL that is used here. The last result of each method
// is the code that the function returned; Success is 0. It is an interface so
// that tests can count references and answer in a driver's place.
//
// All methods are safe for concurrent use, SetArgs excepted: OpenCL forbids two
// threads to set arguments of one kernel.
type API interface {
	// Path is the file of the library.
	Path() string
	// Has reports whether the library has a function of the optional ones.
	Has(Optional) bool

	Platforms() ([]Platform, int32)
	PlatformText(p Platform, param uint32) (string, int32)
	Devices(p Platform) ([]Device, int32)
	DeviceText(d Device, param uint32) (string, int32)
	DeviceWord(d Device, param uint32) (uint64, int32)
	// DeviceBytes fills out, and fails if the answer is not exactly as long.
	DeviceBytes(d Device, param uint32, out []byte) int32
	// DeviceAndHostTimer reads both clocks. The caller makes sure that platform
	// and device are of version 2.1.
	DeviceAndHostTimer(d Device) (device, host uint64, code int32)

	CreateContext(d Device) (Context, int32)
	ReleaseContext(c Context) int32

	// CreateQueue makes a queue with bits of QueueProperties. modern uses the
	// function of version 2.0, for which the caller has checked the platform.
	CreateQueue(c Context, d Device, properties uint64, modern bool) (Queue, int32)
	ReleaseQueue(q Queue) int32
	QueueContext(q Queue) (Context, int32)
	QueueDevice(q Queue) (Device, int32)
	QueueProperties(q Queue) (uint64, int32)
	Flush(q Queue) int32
	Finish(q Queue) int32

	// Marker queues a marker behind all that was queued before. As a barrier it
	// also holds back what is queued after it, which in order everything is.
	Marker(q Queue, barrier bool) (Event, int32)
	// Barrier makes later work wait for an event.
	Barrier(q Queue, after Event) int32
	// Fill writes bytes of one value. With after it waits for that event too.
	Fill(q Queue, m Mem, value byte, bytes int64, after Event) (Event, int32)
	Copy(q Queue, dst, src Mem, bytes int64) int32
	// ReadWords waits for some events, and blocks until it has filled out from
	// so many bytes into a buffer.
	ReadWords(q Queue, m Mem, offset int64, out []uint64, after []Event) int32
	// Task runs a kernel once.
	Task(q Queue, k Kernel) (Event, int32)

	CreateUserEvent(c Context) (Event, int32)
	SetUserEvent(e Event, status int32) int32
	WaitEvent(e Event) int32
	EventStatus(e Event) (status, code int32)
	EventTime(e Event, param uint32) (uint64, int32)
	RetainEvent(e Event) int32
	ReleaseEvent(e Event) int32

	CreateBuffer(c Context, bytes int64) (Mem, int32)
	ReleaseMem(m Mem) int32

	CreateProgram(c Context, source string) (Program, int32)
	BuildProgram(p Program, d Device, options string) int32
	BuildLog(p Program, d Device) string
	ReleaseProgram(p Program) int32
	CreateKernel(p Program, name string) (Kernel, int32)
	// SetArgs sets argument 0 to a buffer, and 1 and 2 to words.
	SetArgs(k Kernel, m Mem, first, second uint64) int32
	ReleaseKernel(k Kernel) int32
}

// Optional is a function that older loaders lack.
type Optional int

// The optional functions.
const (
	QueueWithProperties Optional = iota // 2.0
	Timers                              // 2.1
)

// The numbers that are used, with OpenCL's own names.
const (
	Success = 0

	// Codes.
	DeviceNotFound            = -1
	DeviceNotAvailable        = -2
	OutOfResources            = -5
	ProfilingInfoNotAvailable = -7
	ErrorForEventsInWaitList  = -14
	InvalidValue              = -30
	InvalidDevice             = -33
	InvalidContext            = -34
	InvalidCommandQueue       = -36
	PlatformNotFound          = -1001

	// The execution status of a command that is done; above it one that is
	// not, below it one that failed.
	Complete = 0

	// Platform and device queries.
	PlatformVersion = 0x0901
	PlatformName    = 0x0902
	PlatformVendor  = 0x0903

	DeviceType       = 0x1000
	DeviceAvailable  = 0x1027
	DeviceName       = 0x102B
	DeviceVendor     = 0x102C
	DriverVersion    = 0x102D
	DeviceVersion    = 0x102F
	DeviceExtensions = 0x1030
	DeviceUUID       = 0x106A // cl_khr_device_uuid: 16 bytes
	DevicePCIBusInfo = 0x410F // cl_khr_pci_bus_info: domain, bus, device, function of 4 bytes each

	// Bits of DeviceType.
	TypeCPU         = 1 << 1
	TypeGPU         = 1 << 2
	TypeAccelerator = 1 << 3

	// Bits of a queue's properties.
	QueueOutOfOrder = 1 << 0
	QueueProfiling  = 1 << 1

	// Times of an event, in nanoseconds.
	ProfilingStart = 0x1282
	ProfilingEnd   = 0x1283
)
