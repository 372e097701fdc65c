package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/internal/ctxerr"
)

// All blocks the goroutine until the device has reached every fence, or ctx is done.
// It waits for all of them also after one has failed, because what they stand for
// may only be used again once none is in progress; the error joins those of all
// that failed, and of all that had no result when ctx was done. The fences may be of
// different sources and devices, and none at all is nil. Each is waited for as Fence.Wait
// does it.
func All(ctx context.Context, fences ...*Fence) error {
	var failed []error
	for i, f := range fences {
		if err := f.Wait(ctx); err != nil {
			failed = append(failed, fmt.Errorf("fence %d of %d: %w", i+1, len(fences), err))
		}
	}
	return errors.Join(failed...)
}

// Any blocks the goroutine until one of the fences has a result, or ctx is done. It
// gives that fence's place in fences and the error that it ended with, nil if the
// device has reached it; of several the first. Without a result it is -1 and an
// error that wraps ctx.Err. No fences are ErrInvalid, since nobody could ever be
// first, and a nil or zero Fence among them is ErrNotRecorded with its place.
//
// The fences may be of different sources and devices. The others are not closed.
func Any(ctx context.Context, fences ...*Fence) (int, error) {
	switch {
	case ctx == nil:
		return -1, fmt.Errorf("fence wait for any of %d: %w: nil context", len(fences), events.ErrInvalid)
	case len(fences) == 0:
		return -1, fmt.Errorf("fence wait for any: %w: nothing to wait for", events.ErrInvalid)
	}
	for i, f := range fences {
		if !f.recorded() {
			return i, notRecorded("wait for any")
		}
	}
	first := make(chan struct{}, 1)
	began := time.Now()
	for i, f := range fences {
		if f.listen(first) {
			continue
		}
		for _, before := range fences[:i] {
			before.ignore(first)
		}
		return i, f.result("fence wait for any")
	}
	select {
	case <-first:
	case <-ctx.Done():
	}
	settled := -1
	for i, f := range fences {
		if f.ignore(first) && settled < 0 {
			settled = i
		}
	}
	if settled >= 0 {
		return settled, fences[settled].result("fence wait for any")
	}
	fences[0].core.countGivenUp()
	return -1, fmt.Errorf("fence wait for any of %d, the first %s: gave up after %v: %w",
		len(fences), fences[0].where(), time.Since(began).Round(time.Microsecond), ctxerr.Of(ctx))
}

// listen has first told when f gets a result, and has the device watched for f. It
// reports false if there is a result already.
func (f *Fence) listen(first chan struct{}) bool {
	f.core.mu.Lock()
	defer f.core.mu.Unlock()
	if f.settled {
		return false
	}
	f.listeners = append(f.listeners, first)
	f.attend()
	return true
}

// ignore takes back one listen, and reports whether f has a result.
func (f *Fence) ignore(first chan struct{}) bool {
	f.core.mu.Lock()
	if i := slices.Index(f.listeners, first); i >= 0 {
		f.listeners = slices.Delete(f.listeners, i, i+1)
	}
	f.core.mu.Unlock()
	return f.leave()
}
