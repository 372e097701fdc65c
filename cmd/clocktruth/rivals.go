package main

import (
	"errors"
	"time"

	"example.com/devevents/events/cuda"
)

// The other ways of putting an event on the host's clock.
const (
	oncePerSecond = iota // one event a second, waited for, and the host's clock read afterwards
	onceAtAll            // the same, once for the whole process
	latestAnchor         // a bracket of the best of four once a second, and what came after counted on
	rivalCount
)

var rivalNames = [rivalCount]string{"one-sided anchor of up to 1 s", "one-sided anchor for the process", "latest two-sided anchor, slope 1"}

// rivals keeps the anchors of each.
type rivals struct {
	stream cuda.Stream
	marks  [perRound]cuda.Event
	anchor [rivalCount]rival
	probes [4]cuda.Event
}

type rival struct {
	event cuda.Event
	at    time.Duration
	taken bool
}

func (r *rivals) open(x *experiment) error {
	var err error
	if r.stream, err = x.dev.StreamCreateNonBlocking(); err != nil {
		return err
	}
	all := make([]*cuda.Event, 0, perRound+rivalCount+len(r.probes))
	for i := range r.marks {
		all = append(all, &r.marks[i])
	}
	for i := range r.anchor {
		all = append(all, &r.anchor[i].event)
	}
	for i := range r.probes {
		all = append(all, &r.probes[i])
	}
	for _, e := range all {
		if *e, err = x.dev.EventCreate(); err != nil {
			return err
		}
	}
	return nil
}

func (r *rivals) close(dev cuda.Device) error {
	var all []error
	for _, e := range r.marks {
		all = append(all, dev.EventDestroy(e))
	}
	for i := range r.anchor {
		all = append(all, dev.EventDestroy(r.anchor[i].event))
	}
	for _, e := range r.probes {
		all = append(all, dev.EventDestroy(e))
	}
	return errors.Join(append(all, dev.StreamDestroy(r.stream))...)
}

// place puts the starts of a round where each rival would, and renews their anchors
// when those are due, as they do: before the next windows.
func (r *rivals) place(x *experiment, round []*window) error {
	for i := range r.anchor {
		a := &r.anchor[i]
		if !a.taken {
			continue
		}
		for j, w := range round {
			span, err := x.dev.EventElapsed(a.event, w.mark)
			if err != nil {
				return err
			}
			// The window's own event comes right behind the mark.
			round[j].rival[i] = a.at + span + x.empty
		}
	}
	for i := range r.anchor {
		a := &r.anchor[i]
		if a.taken && (i == onceAtAll || x.now()-a.at < time.Second) {
			continue
		}
		if i == latestAnchor {
			if err := r.bracket(x, a); err != nil {
				return err
			}
			continue
		}
		if err := errors.Join(x.dev.EventRecord(a.event, r.stream), x.dev.EventWait(a.event)); err != nil {
			return err
		}
		a.at, a.taken = x.now(), true
	}
	return nil
}

func (r *rivals) bracket(x *experiment, a *rival) error {
	best, width := -1, time.Duration(0)
	for i, e := range r.probes {
		before := x.now()
		if err := x.dev.EventRecord(e, r.stream); err != nil {
			return err
		}
		for {
			done, err := x.dev.EventQuery(e)
			if err != nil {
				return err
			}
			if done {
				break
			}
		}
		after := x.now()
		if best < 0 || after-before < width {
			best, width, a.at = i, after-before, before+(after-before)/2
		}
	}
	a.event, r.probes[best], a.taken = r.probes[best], a.event, true
	return nil
}
