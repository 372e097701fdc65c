package bench

import (
	"errors"
	"fmt"

	"example.com/devevents/bench/internal/show"
	"example.com/devevents/events"
)

const (
	flushSmallest = 64 << 20
	flushLargest  = 1 << 30
	flushUnknown  = 256 << 20 // where the cache's size is not known
	ratedFills    = 4         // that memory's rate is taken from; what stays in the cache is little of them
)

// heat says what a sample does about the cache.
type heat uint8

const (
	heatAsked    heat = iota // what the case asks for
	heatKept                 // nothing, and the same buffers each time
	heatThorough             // what the case asks for, behind a fill of twice the size
)

// cachePlan is what a case does about the device's cache.
type cachePlan struct {
	mode    ColdMode // never ColdAuto
	text    string   // for the report
	why     string   // it cannot be called verified, or cold where refused
	refused bool     // the word cold is refused
	flush   int64    // bytes of a fill
	size    int64    // of the cache, 0 is not known
}

// cacheOf decides what a case does about the cache.
func (d *DeviceEvents[E, S]) cacheOf(set *settings, chunk int64) cachePlan {
	k := cachePlan{mode: set.cold, text: ColdNone.String()}
	if k.mode == ColdAuto {
		k.mode = ColdNone
		if set.domain == GPU && chunk == 1 {
			k.mode = ColdFlush
		}
	}
	if d.cache != nil {
		if size, err := d.cache.CacheBytes(); err == nil {
			k.size = max(size, 0)
		}
	}
	if k.size == 0 {
		k.why = "the size of the cache is not known"
	}
	switch k.mode {
	case ColdFlush:
		d.makeCold(&k, set, chunk)
	case ColdRotate:
		k.turn(set.ring)
	}
	return k
}

// turn holds the buffers that are used in turn against the cache.
func (k *cachePlan) turn(r ring) {
	all := int64(r.buffers) * r.bytes
	k.text = fmt.Sprintf("%d buffers of %s in turn", r.buffers, bytesText(r.bytes))
	switch {
	case r.buffers < 2 || r.bytes <= 0:
		k.refused, k.why = true, "it takes two buffers at least"
	case k.size == 0:
		k.refused = true
	case all < 2*k.size:
		k.refused, k.why = true, fmt.Sprintf("together they are %s, less than twice the cache of %s", bytesText(all), bytesText(k.size))
	}
}

// makeCold gets the buffer for the fills, and says what will be done.
func (d *DeviceEvents[E, S]) makeCold(k *cachePlan, set *settings, chunk int64) {
	if d.scratch == nil {
		k.mode, k.text, k.why = ColdNone, "none: the backend has no memory to fill", ""
		return
	}
	k.flush = flushUnknown
	switch {
	case set.flush > 0:
		k.flush = set.flush
	case k.size > 0:
		k.flush = min(max(2*k.size, flushSmallest), flushLargest)
	}
	if err := d.room(k.flush); err != nil {
		k.mode, k.text, k.why, k.flush = ColdNone, "none: no memory for the fill: "+oneLine(err), "", 0
		return
	}
	k.text = "flush of " + bytesText(k.flush)
	if chunk > 1 && k.why == "" {
		k.why = fmt.Sprintf("only the first of the %d operations of a sample finds it so", chunk)
	}
}

// room makes the buffer for fills as large as bytes.
func (d *DeviceEvents[E, S]) room(bytes int64) error {
	if d.buffer.Bytes >= bytes {
		return nil
	}
	buffer, err := d.scratch.ScratchAlloc(bytes)
	if err != nil {
		return err
	}
	if d.buffer.Bytes > 0 {
		_ = d.scratch.ScratchFree(d.buffer) // a smaller one; Close reports what matters
	}
	d.buffer = buffer
	return nil
}

// fill is how many bytes are filled before a sample.
func (d *DeviceEvents[E, S]) fill() int64 {
	switch {
	case d.heat == heatKept:
		return 0
	case d.heat == heatThorough:
		return max(2*d.plan.flush, 2*d.plan.size)
	}
	return d.plan.flush
}

// setHeat says what the next samples do about the cache.
func (d *DeviceEvents[E, S]) setHeat(h heat) error {
	d.heat = h
	if bytes := d.fill(); bytes > 0 {
		if d.scratch == nil {
			return fmt.Errorf("filling the cache: %w", events.ErrUnsupported)
		}
		return d.room(bytes)
	}
	return nil
}

// resetLines makes lines that were set aside ordinary ones, which a fill evicts.
func (d *DeviceEvents[E, S]) resetLines() error {
	if d.cache == nil {
		return nil
	}
	if err := d.cache.CacheResetPersisting(); err != nil && !errors.Is(err, events.ErrUnsupported) {
		return fmt.Errorf("resetting persisting cache lines: %w", err)
	}
	return nil
}

// flush overwrites the last-level cache. Before a hold it waits for the fill, which
// would lie in the host's clocks otherwise; without one it keeps the stream busy, so
// that launch latency lies in the fill and not in the window.
func (d *DeviceEvents[E, S]) flush(stream S) error {
	if err := d.resetLines(); err != nil {
		return err
	}
	if err := d.scratch.ScratchMemset(d.buffer, 0, d.fill(), stream); err != nil {
		return fmt.Errorf("filling the cache: %w", err)
	}
	if d.gateWhy != "" {
		return nil
	}
	if err := d.api.EventRecord(d.end, stream); err != nil {
		return err
	}
	return d.wait(d.end)
}

// cacheState implements staged.
func (d *DeviceEvents[E, S]) cacheState() cachePlan { return d.plan }

// fillRate is how many bytes of memory a fill writes in a second.
func (d *DeviceEvents[E, S]) fillRate() (float64, error) {
	if d.scratch == nil {
		return 0, fmt.Errorf("filling memory: %w", events.ErrUnsupported)
	}
	bytes := max(d.plan.flush, 4*d.plan.size)
	if err := d.room(bytes); err != nil {
		return 0, err
	}
	stream := d.streams[0]
	fill := func() error { return d.scratch.ScratchMemset(d.buffer, 0, bytes, stream) }
	if err := fill(); err != nil { // what lies before the first record keeps the stream busy
		return 0, err
	}
	if err := d.api.EventRecord(d.start, stream); err != nil {
		return 0, err
	}
	for range ratedFills {
		if err := fill(); err != nil {
			return 0, err
		}
	}
	if err := d.api.EventRecord(d.end, stream); err != nil {
		return 0, err
	}
	if err := d.wait(d.end); err != nil {
		return 0, err
	}
	span, err := d.api.EventElapsed(d.start, d.end)
	if err == nil && span <= 0 {
		err = fmt.Errorf("%d fills of %s took no time: %w", ratedFills, bytesText(bytes), events.ErrBadReading)
	}
	if err != nil {
		return 0, err
	}
	return ratedFills * float64(bytes) / span.Seconds(), nil
}

// Ring is how many buffers of so many bytes make a ring for Rotate that keeps cold: twice
// the device's last-level cache, and two at least.
func (d *DeviceEvents[E, S]) Ring(bytes int64) (int, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("a ring of buffers of %d bytes: %w", bytes, events.ErrInvalid)
	}
	if d.cache == nil {
		return 0, fmt.Errorf("a ring for a cache whose size the backend cannot tell: %w", events.ErrUnsupported)
	}
	size, err := d.cache.CacheBytes()
	if err != nil {
		return 0, err
	}
	return int(max(2, (2*size+bytes-1)/bytes)), nil
}

// bytesText shows a number of bytes.
func bytesText(bytes int64) string {
	switch {
	case bytes >= 1<<20:
		return show.Digits(float64(bytes)/(1<<20)) + " MiB"
	case bytes >= 1<<10:
		return show.Digits(float64(bytes)/(1<<10)) + " KiB"
	}
	return fmt.Sprintf("%d bytes", bytes)
}
