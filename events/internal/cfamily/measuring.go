package cfamily

import (
	"errors"
	"fmt"

	"example.com/devevents/events"
)

// What the abilities for harnesses need.

func (l *lib) cached() bool {
	return l.canSwitch() && l.has1(OpAttribute) && l.table.CacheAttribute != 0
}

func (l *lib) synchronizable() bool { return l.canSwitch() && l.has1(OpContextSync) }

func (l *lib) launchable() bool { return l.spinnable() && l.table.EmptyKernel != "" }

func (l *lib) readable() bool { return l.spinnable() && l.table.ReadKernel != "" }

// CacheBytes implements events.Cache.
func (d *dev) CacheBytes() (int64, error) {
	if err := d.needs((*lib).cached, OpAttribute); err != nil {
		return 0, err
	}
	if fault := d.fault.Load(); fault != nil {
		return 0, fault
	}
	var bytes int32
	code := d.on(OpAttribute, 0, func(f *frame) int32 {
		f.setInt32(1, 0)
		code := call3(d.lib.fn[OpAttribute], f.wordAddr(1), uintptr(d.lib.table.CacheAttribute), uintptr(d.ordinal))
		bytes = f.int32(1)
		return code
	})
	if err := d.failed(OpAttribute, code); err != nil {
		return 0, fmt.Errorf("asking for the size of the cache: %w", err)
	}
	if bytes <= 0 {
		return 0, fmt.Errorf("%s: %s says that the cache has %d bytes: %w", d.lib.table.Backend, d.lib.name(OpAttribute), bytes, events.ErrUnsupported)
	}
	return int64(bytes), nil
}

// CacheResetPersisting implements events.Cache. A library without the function is older
// than the lines, and a device that refuses it as unsupported has none.
func (d *dev) CacheResetPersisting() error {
	if err := d.needs((*lib).cached, OpResetLines); err != nil {
		return err
	}
	if !d.lib.has1(OpResetLines) {
		return nil
	}
	err := d.driverOp(OpResetLines, func(*frame) int32 { return call0(d.lib.fn[OpResetLines]) })
	if errors.Is(err, events.ErrUnsupported) {
		return nil
	}
	return err
}

// DeviceSynchronize implements events.DeviceSynchronizer.
func (d *dev) DeviceSynchronize() error {
	if err := d.needs((*lib).synchronizable, OpContextSync); err != nil {
		return err
	}
	return d.driverOp(OpContextSync, func(*frame) int32 { return call0(d.lib.fn[OpContextSync]) })
}

// Versions implements events.Versioned. Where the driver library is used directly there
// is no runtime.
func (d *dev) Versions() (driver, runtime string) {
	if d == nil {
		return "", ""
	}
	text := func(version int) string {
		if version == 0 {
			return ""
		}
		return d.lib.table.VersionText(version)
	}
	driver, runtime = text(d.lib.version.driver), text(d.lib.version.runtime)
	if d.lib.table.API == "driver" {
		return runtime, ""
	}
	return driver, runtime
}

// LaunchEmpty implements events.EmptyKernel.
func (d Device[V]) LaunchEmpty(stream Stream[V]) error {
	if err := d.needs((*lib).launchable, OpLaunch); err != nil {
		return err
	}
	err := d.kernelsLoaded(stream)
	if err == nil {
		err = d.launchEmpty(stream)
	}
	if err != nil {
		return fmt.Errorf("queueing an empty kernel: %w", err)
	}
	return nil
}

// kernelsLoaded has the program on the device before something is launched on stream.
func (d Device[V]) kernelsLoaded(stream Stream[V]) error {
	if err := stream.check(d.dev); err != nil {
		return err
	}
	d.scratch.mu.Lock()
	defer d.scratch.mu.Unlock()
	return d.prepare()
}

func (d Device[V]) launchEmpty(stream Stream[V]) error {
	return d.queued(OpLaunch, stream, func(f *frame) int32 {
		return callLaunch(d.lib.fn[OpLaunch], d.scratch.kernel.empty, stream.handle, oneThread, &f.launch)
	})
}

// readers are how many threads of a block read, each so many bytes at most.
const (
	readers    = 256
	readerTake = 64
)

// LaunchRead implements events.ReadKernel.
func (d Device[V]) LaunchRead(buffer events.Buffer, bytes int64, stream Stream[V]) error {
	if err := d.needs((*lib).readable, OpLaunch); err != nil {
		return err
	}
	if err := checkRange("buffer", buffer, bytes); err != nil {
		return err
	}
	err := d.kernelsLoaded(stream)
	if err == nil {
		err = d.launchRead(buffer, bytes, stream)
	}
	if err != nil {
		return fmt.Errorf("queueing a kernel that reads %d bytes: %w", bytes, err)
	}
	return nil
}

func (d Device[V]) launchRead(buffer events.Buffer, bytes int64, stream Stream[V]) error {
	return d.queued(OpLaunch, stream, func(f *frame) int32 {
		f.launch.first, f.launch.second = uint64(buffer.Address), uint64(bytes)
		size := grid{uintptr(1 + (bytes-1)/(readers*readerTake)), readers}
		return callLaunch(d.lib.fn[OpLaunch], d.scratch.kernel.reader, stream.handle, size, &f.launch)
	})
}
