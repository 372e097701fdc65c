package events

// Cache tells how large a device's last-level cache is, and gives back what was set
// aside in it. Whoever measures with a cold cache overwrites as much.
type Cache interface {
	// CacheBytes is the size of the last-level cache in bytes, above 0. It neither waits
	// for the device nor initialises it.
	CacheBytes() (int64, error)
	// CacheResetPersisting makes lines that were set aside ordinary ones again; a fill
	// evicts no others. How much may be set aside is not changed. On a device that sets
	// nothing aside it does nothing. It may wait for the device, and initialises it:
	// not for a stream that is held by a Gate.
	CacheResetPersisting() error
}

// DeviceSynchronizer waits for a whole device.
type DeviceSynchronizer interface {
	// DeviceSynchronize blocks the calling goroutine until everything is done that was
	// queued on any stream of the device in this process, by whomever. It never returns
	// while a Gate holds one of them. A graph capture in progress on the device is
	// broken by it, with ErrCapturing for both.
	DeviceSynchronize() error
}

// Versioned names the versions below a backend, as text for a report.
type Versioned interface {
	// Versions are those of the driver and of the library above it. Empty is not known,
	// or that there is no such layer.
	Versions() (driver, runtime string)
}

// EmptyKernel queues a kernel that does nothing: what it takes is what any kernel takes.
type EmptyKernel[S comparable] interface {
	// LaunchEmpty queues the kernel on stream, as one thread, and returns at once. The
	// first call may load code, which can wait for the device.
	LaunchEmpty(stream S) error
}

// ReadKernel queues a kernel that reads memory: the work that shows what a cache holds.
// A device that has it has Scratch.
type ReadKernel[S comparable] interface {
	// LaunchRead queues a kernel on stream, over all of the device, that reads the first
	// bytes of buffer once, in wholes of 16; a rest is left out. It returns at once, and
	// the buffer holds afterwards what it held. bytes from 1 to those of the buffer, else ErrInvalid. The buffer is
	// freed after the kernel. The first call may load code, which can wait for the device.
	LaunchRead(buffer Buffer, bytes int64, stream S) error
}
