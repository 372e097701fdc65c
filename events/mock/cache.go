package mock

import (
	"cmp"
	"container/list"
	"maps"
	"slices"

	"example.com/devevents/events"
)

// lineBytes is how finely a simulated cache remembers.
const lineBytes = 64 << 10

// access is a pass over the first bytes of a buffer.
type access struct {
	buffer uintptr
	bytes  int64
	write  bool
}

type line struct {
	buffer uintptr
	index  int64
}

func (l line) compare(m line) int {
	return cmp.Or(cmp.Compare(l.buffer, m.buffer), cmp.Compare(l.index, m.index))
}

// cache remembers which lines were used last.
type cache struct {
	room  int     // lines
	speed float64 // of a hit, against a miss
	used  *list.List
	at    map[line]*list.Element
	aside map[line]bool // lines that nothing evicts
}

func newCache(cfg deviceConfig) *cache {
	if cfg.cacheSpeed <= 1 || cfg.cacheBytes < lineBytes {
		return nil
	}
	return &cache{
		room: int(cfg.cacheBytes / lineBytes), speed: cfg.cacheSpeed,
		used: list.New(), at: map[line]*list.Element{}, aside: map[line]bool{},
	}
}

// run is how long accesses take, in the order given.
func (k *cache) run(moves []access) int64 {
	var ns float64
	for _, m := range moves {
		for i := int64(0); i*lineBytes < m.bytes; i++ {
			part := nsPerByte * float64(min(lineBytes, m.bytes-i*lineBytes))
			if k.touch(line{m.buffer, i}) && !m.write {
				part /= k.speed
			}
			ns += part
		}
	}
	return int64(ns)
}

// touch uses a line, and reports whether it was there.
func (k *cache) touch(l line) bool {
	if k.aside[l] {
		return true
	}
	if e, there := k.at[l]; there {
		k.used.MoveToFront(e)
		return true
	}
	k.at[l] = k.used.PushFront(l)
	k.evict()
	return false
}

func (k *cache) evict() {
	for k.used.Len() > max(k.room-len(k.aside), 0) {
		last := k.used.Back()
		k.used.Remove(last)
		delete(k.at, last.Value.(line))
	}
}

// forget drops what is known of a buffer.
func (k *cache) forget(buffer uintptr) {
	if k == nil {
		return
	}
	for e := k.used.Front(); e != nil; {
		next := e.Next()
		if l := e.Value.(line); l.buffer == buffer {
			k.used.Remove(e)
			delete(k.at, l)
		}
		e = next
	}
	for l := range k.aside {
		if l.buffer == buffer {
			delete(k.aside, l)
		}
	}
}

// CacheBytes implements events.Cache.
func (d *Device) CacheBytes() (int64, error) {
	c := d.begin(OpCacheBytes)
	err := d.need(FeatureCache, c.op)
	if err == nil {
		err = d.reach(&c)
	}
	if err != nil {
		return 0, d.end(&c, err)
	}
	return d.cfg.cacheBytes, d.end(&c, nil)
}

// CacheResetPersisting implements events.Cache: what SetAside has put into the cache
// may be evicted again.
func (d *Device) CacheResetPersisting() error {
	c := d.begin(OpCacheResetPersisting)
	err := d.need(FeatureCache, c.op)
	if err == nil {
		err = d.reach(&c)
	}
	if err == nil && d.cache != nil {
		for _, l := range slices.SortedFunc(maps.Keys(d.cache.aside), line.compare) {
			d.cache.at[l] = d.cache.used.PushBack(l)
		}
		clear(d.cache.aside)
		d.cache.evict()
	}
	return d.end(&c, err)
}

// SetAside puts the first bytes of a buffer into the cache at once, where nothing evicts
// them until CacheResetPersisting. Without CacheOf it does nothing.
func (d *Device) SetAside(b events.Buffer, bytes int64) {
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	if d.cache == nil {
		return
	}
	for i := int64(0); i*lineBytes < bytes; i++ {
		l := line{b.Address, i}
		if e, there := d.cache.at[l]; there {
			d.cache.used.Remove(e)
			delete(d.cache.at, l)
		}
		d.cache.aside[l] = true
	}
	d.cache.evict()
}

// LaunchRead implements events.ReadKernel. It is faster where the bytes are in the cache.
func (d *Device) LaunchRead(b events.Buffer, bytes int64, s Stream) error {
	c := d.begin(OpLaunchRead)
	c.stream = s.ID()
	return d.end(&c, d.move(&c, FeatureReadKernel, s, bytes, access{b.Address, bytes, false}))
}

// Versions implements events.Versioned.
func (d *Device) Versions() (driver, runtime string) {
	if !d.has(FeatureVersioned) {
		return "", ""
	}
	return d.cfg.driver, d.cfg.runtime
}

// LaunchEmpty implements events.EmptyKernel.
func (d *Device) LaunchEmpty(s Stream) error {
	c := d.begin(OpLaunchEmpty)
	c.stream = s.ID()
	err := d.need(FeatureEmptyKernel, c.op)
	if err == nil {
		err = d.submit(&c, s, op{kind: opWork, dur: d.cfg.emptyCost})
	}
	return d.end(&c, err)
}

// DeviceSynchronize implements events.DeviceSynchronizer. It breaks the captures on the
// device.
func (d *Device) DeviceSynchronize() error {
	c := d.begin(OpDeviceSynchronize)
	return d.end(&c, d.synchronizeAll(&c))
}

func (d *Device) synchronizeAll(c *call) error {
	if err := d.need(FeatureDeviceSynchronizer, c.op); err != nil {
		return err
	}
	if err := d.reach(c); err != nil {
		return err
	}
	var broken error
	for _, k := range d.sys.captures {
		if k.origin.dev == d {
			k.invalid = true
			broken = refusal(c.op, CodeCaptureUnsupported)
		}
	}
	if broken != nil {
		return broken
	}
	if err := d.pollCaptures(c.op, nil); err != nil {
		return err
	}
	var ends []record // queues come and go while this waits
	now := d.sys.now()
	for _, q := range slices.AppendSeq(slices.Clone(d.working()), maps.Values(d.queues)) {
		if q.compact(now); q.n > 0 {
			ends = append(ends, record{queue: q, seq: q.firstSeq + uint64(q.n-1)})
		}
	}
	for _, r := range ends {
		if err := d.waitFor(c, r); err != nil {
			return err
		}
	}
	return nil
}

// working are the queues of destroyed streams that are not done.
func (d *Device) working() []*queue {
	now := d.sys.now()
	d.orphans = slices.DeleteFunc(d.orphans, func(q *queue) bool { q.compact(now); return q.n == 0 })
	return d.orphans
}
