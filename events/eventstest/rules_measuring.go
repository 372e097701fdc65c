package eventstest

import (
	"fmt"

	"example.com/devevents/events"
)

func cacheSize[E any, S comparable](c *check[E, S]) {
	c.need(c.cache != nil, "Cache")
	ask := func() int64 {
		n, err := c.cache.CacheBytes()
		c.must(err, "CacheBytes")
		if n <= 0 {
			c.failf("It is %d.", n)
		}
		return n
	}
	first := ask()
	c.held(func(h *hold[E, S]) {
		c.must(c.prompt(h, "CacheBytes", func() error { _, err := c.cache.CacheBytes(); return err }), "CacheBytes")
		if again := ask(); again != first {
			c.failf("It is %d first and %d later.", first, again)
		}
	})
	c.must(c.cache.CacheResetPersisting(), "CacheResetPersisting")
}

func synchronizeDevice[E any, S comparable](c *check[E, S]) {
	c.need(c.syncer != nil, "DeviceSynchronizer")
	var last []E
	for range 3 {
		s := c.stream()
		c.busy(s, workTime)
		last = append(last, c.recorded(s))
	}
	c.must(c.block(c.syncer.DeviceSynchronize), "DeviceSynchronize")
	for i, e := range last {
		if !c.isReached(e) {
			c.failf("The record on stream %d of %d was not reached.", i+1, len(last))
		}
	}
}

func versionsStable[E any, S comparable](c *check[E, S]) {
	c.need(c.versions != nil, "Versioned")
	driver, runtime := c.versions.Versions()
	c.complete()
	if d, r := c.versions.Versions(); d != driver || r != runtime {
		c.failf("They are %q and %q first, %q and %q later.", driver, runtime, d, r)
	}
}

func emptyKernel[E any, S comparable](c *check[E, S]) {
	c.need(c.empty != nil, "EmptyKernel")
	s := c.stream()
	c.must(c.empty.LaunchEmpty(s), "LaunchEmpty") // the first may load code
	c.must(c.sync(s), "StreamSynchronize")
	start, end := c.event(), c.event()
	c.held(func(h *hold[E, S]) { // so that no pause of the host lies between the events
		c.must(c.prompt(h, "LaunchEmpty", func() error { return c.empty.LaunchEmpty(h.stream) }), "LaunchEmpty")
		c.record(start, h.stream)
		c.must(c.empty.LaunchEmpty(h.stream), "LaunchEmpty")
		c.record(end, h.stream)
	})
	c.await(end)
	span, err := c.api.EventElapsed(start, end)
	c.must(err, "EventElapsed")
	if span > c.overhead {
		c.failf("Round one launch two events read %v.", span)
	}
}

func readKernel[E any, S comparable](c *check[E, S]) {
	c.need(c.reader != nil && c.scratch != nil, "ReadKernel and Scratch")
	const size = 1 << 20
	b, err := c.scratch.ScratchAlloc(size)
	c.must(err, "ScratchAlloc")
	c.later(func() { _ = c.scratch.ScratchFree(b) })
	s := c.stream()
	c.must(c.reader.LaunchRead(b, size, s), "LaunchRead") // the first may load code
	c.must(c.sync(s), "StreamSynchronize")
	end := c.event()
	c.held(func(h *hold[E, S]) {
		c.must(c.prompt(h, "LaunchRead", func() error { return c.reader.LaunchRead(b, size-1, h.stream) }), "LaunchRead of no whole")
		c.record(end, h.stream)
	})
	c.await(end)
	for _, bytes := range []int64{-1, 0, size + 1} {
		c.want(c.reader.LaunchRead(b, bytes, s), fmt.Sprintf("LaunchRead of %d bytes of %d", bytes, size), events.ErrInvalid)
	}
}
