package probe

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"example.com/devevents/events"
)

func checkRecordWait[E any, S comparable](e *env[E, S]) error {
	const rounds, length = 20, 5 * time.Millisecond
	stream, evs, err := e.streamAndEvents(1)
	if err != nil {
		return err
	}
	event := evs[0]
	var over []time.Duration // from the end of the work to the return of the wait, at most
	for i := range rounds {
		if err := e.at("waiting for event %d of %d", i+1, rounds); err != nil {
			return err
		}
		began := time.Now()
		spin, err := e.spin(length, stream)
		if err != nil && !errors.Is(err, errNoSpin) {
			return err
		}
		if err := e.recordAndWait(event, stream); err != nil {
			return err
		}
		waited := time.Since(began)
		if e.query != nil {
			reached, err := e.query.EventQuery(event)
			if err != nil {
				return fmt.Errorf("querying after the wait: %w", err)
			}
			if !reached {
				return errors.New("the wait returned, and a query says that the event is not reached")
			}
		}
		if spin == nil {
			continue
		}
		late, err := overtime(spin, length, waited)
		if err != nil {
			return err
		}
		over = append(over, late)
	}
	e.count("waits", rounds)
	if over == nil {
		e.measured("%d waits returned; the backend cannot queue work to wait for", rounds)
		return nil
	}
	late := newSample(over).median()
	e.nanoseconds("work", length)
	e.nanoseconds("queueing_and_wakeup_median", late)
	e.measured("%d waits, each for %v of work, returned %v after it (median, queueing included)", rounds, length, late)
	return nil
}

// overtime is how much longer a wait took than the work that it was for.
func overtime(spin events.Spin, length, waited time.Duration) (time.Duration, error) {
	busy, err := spin.Measured()
	if errors.Is(err, events.ErrNotReady) {
		return 0, fmt.Errorf("the wait returned after %v, while the work of %v before the event was still running", waited, length)
	}
	if err != nil {
		return 0, fmt.Errorf("asking the device's timer: %w", err)
	}
	// A device may run a little fast or slow against the host, not by a hundredth.
	if waited < busy-busy/100 {
		return 0, fmt.Errorf("the wait returned after %v, and the work before the event took %v", waited, busy)
	}
	return waited - busy, nil
}

const (
	workTolerance = 5 * time.Microsecond
	workRounds    = 50
	emptyRounds   = 20
	// leadIn keeps the stream busy while the host queues what is measured.
	leadIn = 200 * time.Microsecond
)

// tolerance is how far a span may read away from the work in it. Handing over from
// one piece of work to the next is inside the span. A GPU does it in 3.2us (H200).
// On the host's own processors the system has to wake a thread for it: with PoCL
// 1us to 27us, medians, on a machine with nothing else to do.
//
// A driver that stamps each command does so inside the span as well, once before the
// work and once behind it, and a stamp costs the device what an empty pair of events
// reads. On an H200 through OpenCL a kernel's own profiled times read 3us more than
// its timer, and the events round it 3.3us more than those.
func (e *env[E, S]) tolerance(stamp time.Duration) time.Duration {
	if e.ident != nil && e.ident.Identity().Kind == events.KindCPU {
		return 100 * time.Microsecond
	}
	if e.about.CommandsStamped {
		return workTolerance + min(2*stamp, workTolerance)
	}
	return workTolerance
}

// emptyPair is what two events read that are recorded one right after the other behind
// a little work: what a stamp costs the device.
func (e *env[E, S]) emptyPair(stream S, start, end E) (time.Duration, error) {
	var spans []time.Duration
	for i := range emptyRounds {
		if err := e.at("an empty pair of events, %d of %d", i+1, emptyRounds); err != nil {
			return 0, err
		}
		if _, err := e.spin(leadIn, stream); err != nil {
			return 0, err
		}
		if err := e.EventRecord(start, stream); err != nil {
			return 0, err
		}
		if err := e.recordAndWait(end, stream); err != nil {
			return 0, err
		}
		span, err := e.EventElapsed(start, end)
		if err != nil {
			return 0, err
		}
		spans = append(spans, span)
	}
	return newSample(spans).median(), nil
}

var workLengths = []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond}

func checkKnownWork[E any, S comparable](e *env[E, S]) error {
	stream, evs, err := e.streamAndEvents(2)
	if err != nil {
		return err
	}
	stamp, err := e.emptyPair(stream, evs[0], evs[1])
	if err != nil {
		return fmt.Errorf("events with nothing between them: %w", err)
	}
	e.nanoseconds("empty_pair_median", stamp)
	tolerance := e.tolerance(stamp)
	var offsets, wrong []string
	for _, length := range workLengths {
		var spans, timers, offs []time.Duration
		for i := range workRounds {
			if err := e.at("%v of work, %d of %d", length, i+1, workRounds); err != nil {
				return err
			}
			span, timer, err := e.knownWork(stream, evs[0], evs[1], length)
			if err != nil {
				return fmt.Errorf("%v of work: %w", length, err)
			}
			spans, timers, offs = append(spans, span), append(timers, timer), append(offs, span-timer)
		}
		off := newSample(offs)
		key := "work_" + strings.ReplaceAll(length.String(), "µ", "u")
		e.nanoseconds(key+"_events_median", newSample(spans).median())
		e.nanoseconds(key+"_timer_median", newSample(timers).median())
		e.nanoseconds(key+"_difference_median", off.median())
		e.nanoseconds(key+"_difference_min", off.quantile(0))
		e.nanoseconds(key+"_difference_p95", off.quantile(0.95))
		offsets = append(offsets, fmt.Sprintf("%s on %v", signed(off.median()), length))
		if off.median().Abs() > tolerance {
			wrong = append(wrong, fmt.Sprintf("%v of work reads %s away from the device's own timer", length, signed(off.median())))
		}
	}
	e.nanoseconds("tolerance", tolerance)
	e.measured("events minus the device's timer, median of %d, allowed %v: %s", workRounds, tolerance, strings.Join(offsets, ", "))
	if wrong != nil {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// knownWork measures one piece of work between two events, and by the device's
// own timer.
func (e *env[E, S]) knownWork(stream S, start, end E, length time.Duration) (span, timer time.Duration, err error) {
	began := time.Now()
	if _, err = e.spin(leadIn, stream); err != nil {
		return 0, 0, err
	}
	if err = e.EventRecord(start, stream); err != nil {
		return 0, 0, err
	}
	spin, err := e.spin(length, stream)
	if err != nil {
		return 0, 0, err
	}
	if err = e.recordAndWait(end, stream); err != nil {
		return 0, 0, err
	}
	host := time.Since(began)
	if timer, err = spin.Measured(); err != nil {
		return 0, 0, fmt.Errorf("asking the device's timer: %w", err)
	}
	if span, err = e.EventElapsed(start, end); err != nil {
		return 0, 0, err
	}
	// The two device clocks could be wrong together; the host's clock and the
	// length that was asked for say so.
	if timer < length-time.Microsecond {
		return 0, 0, fmt.Errorf("the device's own timer says only %v", timer)
	}
	if limit := host + host/100; span > limit || timer > limit {
		return 0, 0, fmt.Errorf("events say %v and the device's own timer %v, and all of it took %v by the host's clock", span, timer, host)
	}
	return span, timer, nil
}

func signed(d time.Duration) string {
	if d < 0 {
		return d.String()
	}
	return "+" + d.String()
}

func checkOrder[E any, S comparable](e *env[E, S]) error {
	const n = 1000
	stream, evs, err := e.streamAndEvents(n)
	if err != nil {
		return err
	}
	var clampsBefore uint64
	if e.stats != nil {
		clampsBefore = e.clamped()
	}
	if err := e.at("recording %d events", n); err != nil {
		return err
	}
	began := time.Now()
	for i, v := range evs {
		if err := e.EventRecord(v, stream); err != nil {
			return fmt.Errorf("recording event %d: %w", i+1, err)
		}
	}
	if err := e.at("waiting for the last event"); err != nil {
		return err
	}
	if err := e.EventWait(evs[n-1]); err != nil {
		return fmt.Errorf("waiting for the last event: %w", err)
	}
	host := time.Since(began)

	if err := e.at("reading the spans"); err != nil {
		return err
	}
	var sum, last, smallest time.Duration = 0, 0, math.MaxInt64
	steps := make([]time.Duration, 0, n)
	for i := 1; i < n; i++ {
		step, err := e.EventElapsed(evs[i-1], evs[i])
		if err != nil {
			return fmt.Errorf("span between events %d and %d: %w", i, i+1, err)
		}
		since, err := e.EventElapsed(evs[0], evs[i])
		if err != nil {
			return fmt.Errorf("span from the first event to event %d: %w", i+1, err)
		}
		if since < last {
			return fmt.Errorf("event %d reads %v after the first event and event %d, recorded later, reads %v", i, last, i+1, since)
		}
		if step < 0 {
			return fmt.Errorf("event %d reads %v after event %d", i+1, step, i)
		}
		sum, last, smallest = sum+step, since, min(smallest, step)
		steps = append(steps, step)
	}
	e.readings("event_deltas", nil, steps)
	e.count("events", n)
	e.nanoseconds("first_to_last", last)
	e.nanoseconds("smallest_span", smallest)
	e.nanoseconds("sum_of_spans", sum)
	e.measured("%d events over %v, the closest two %v apart", n, last, smallest)
	switch {
	case e.stats != nil && e.clamped() != clampsBefore:
		return fmt.Errorf("%d readings were negative and clamped to 0", e.clamped()-clampsBefore)
	case last == 0:
		return errors.New("all events read the same time")
	case last > host+host/100:
		return fmt.Errorf("the first and the last event read %v apart, and recording and reaching all of them took %v", last, host)
	case (sum - last).Abs() > n*time.Nanosecond+2*floatStep(last):
		return fmt.Errorf("the spans add up to %v, and first to last reads %v", sum, last)
	}
	return nil
}

// floatStep is the distance between neighbouring readings at d, which vendors
// give as float32 milliseconds.
func floatStep(d time.Duration) time.Duration {
	ms := float32(d.Seconds() * 1e3)
	return time.Duration(math.Ceil(float64(math.Nextafter32(ms, math.MaxFloat32)-ms) * 1e6))
}

func checkDeviceTimer[E any, S comparable](e *env[E, S]) error {
	const rounds = 50
	if e.timer == nil || e.stamper == nil {
		return skipf("the backend cannot read the clock of the stamps without an event (no TimerReader with Stamper)")
	}
	stream, evs, err := e.streamAndEvents(1)
	if err != nil {
		return err
	}
	event := evs[0]
	var widths []time.Duration
	var first, firstHost, device, host uint64
	for i := range rounds {
		if err := e.at("record %d of %d", i+1, rounds); err != nil {
			return err
		}
		before, hostBefore, err := e.timer.DeviceAndHostTimer()
		if err != nil {
			return fmt.Errorf("reading the device's timer: %w", err)
		}
		if i == 0 {
			first, firstHost = before, hostBefore
		}
		if err := e.recordAndWait(event, stream); err != nil {
			return err
		}
		if device, host, err = e.timer.DeviceAndHostTimer(); err != nil {
			return fmt.Errorf("reading the device's timer: %w", err)
		}
		stamp, err := e.stamper.EventStamp(event)
		if err != nil {
			return fmt.Errorf("reading the stamp: %w", err)
		}
		// The origin is anywhere, so only differences mean something.
		width, after := time.Duration(device-before), time.Duration(stamp-before)
		switch {
		case after.Abs() > time.Hour+width.Abs():
			return fmt.Errorf("record %d of %d is stamped on another scale than that of the device's timer", i+1, rounds)
		case int64(host-hostBefore) < 0:
			return fmt.Errorf("the driver's host timer went back by %v over record %d of %d", time.Duration(hostBefore-host), i+1, rounds)
		case after < 0 || after > width:
			return fmt.Errorf("record %d of %d is stamped %v after the first of two readings of the device's timer that lie %v apart", i+1, rounds, after, width)
		}
		widths = append(widths, width)
	}
	width := newSample(widths)
	e.count("events", rounds)
	e.nanoseconds("bracket_median", width.median())
	e.nanoseconds("device_span", time.Duration(device-first))
	e.nanoseconds("host_span", time.Duration(host-firstHost))
	e.measured("%d stamps between readings %v apart (median); over all of them the device's timer went on by %v and the driver's host timer by %v",
		rounds, width.median(), time.Duration(device-first), time.Duration(host-firstHost))
	return nil
}

func checkTick[E any, S comparable](e *env[E, S]) error {
	const rounds, n = 16, 64
	// Above it a float32 reading in milliseconds is not exact to the nanosecond.
	const exact = 4 * time.Millisecond
	stream, evs, err := e.streamAndEvents(n)
	if err != nil {
		return err
	}
	distinct := map[time.Duration]struct{}{}
	var tick, smallest time.Duration = 0, math.MaxInt64
	note := func(start, end E) error {
		span, err := e.EventElapsed(start, end)
		if err != nil {
			return fmt.Errorf("reading a span: %w", err)
		}
		if span > 0 && span < exact {
			distinct[span] = struct{}{}
			tick, smallest = gcd(tick, span), min(smallest, span)
		}
		return nil
	}
	for round := range rounds {
		if err := e.at("round %d of %d", round+1, rounds); err != nil {
			return err
		}
		for i, v := range evs {
			if err := e.EventRecord(v, stream); err != nil {
				return fmt.Errorf("recording: %w", err)
			}
			// Pauses of many lengths, or every span could be the same.
			pause(time.Duration((i*37+round*11)%101) * 50 * time.Nanosecond)
		}
		if err := e.EventWait(evs[n-1]); err != nil {
			return fmt.Errorf("waiting: %w", err)
		}
		for i := 1; i < n; i++ {
			if err := errors.Join(note(evs[i-1], evs[i]), note(evs[0], evs[i])); err != nil {
				return err
			}
		}
	}
	e.count("different_spans", len(distinct))
	if len(distinct) < 2 {
		return fmt.Errorf("%d records at different distances gave %d different spans above 0 and below %v, too few to find a step", rounds*n, len(distinct), exact)
	}
	e.nanoseconds("tick", tick)
	e.nanoseconds("smallest_span", smallest)
	if tick == time.Nanosecond {
		e.measured("1ns or finer, or no whole number of nanoseconds (from %d different spans)", len(distinct))
	} else {
		e.measured("%v (from %d different spans)", tick, len(distinct))
	}
	if tick > time.Microsecond {
		return fmt.Errorf("all spans are multiples of %v", tick)
	}
	return nil
}

// pause burns time, because the shortest sleep is far longer.
func pause(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

// What counts as absurd: about a thousand times what a slow device needs.
const (
	absurdRecord    = time.Millisecond
	absurdRoundTrip = 100 * time.Millisecond
)

func checkCost[E any, S comparable](e *env[E, S]) error {
	const batches, size, trips = 20, 400, 200
	stream, evs, err := e.streamAndEvents(1)
	if err != nil {
		return err
	}
	event := evs[0]
	// A slow backend is measured in fewer batches and trips.
	const budget = 500 * time.Millisecond
	enough := time.Now().Add(budget)
	var records, roundTrips []time.Duration
	for i := range batches {
		if err := e.at("batch %d of %d of %d records", i+1, batches, size); err != nil {
			return err
		}
		began := time.Now()
		for range size {
			if err := e.EventRecord(event, stream); err != nil {
				return fmt.Errorf("recording: %w", err)
			}
		}
		records = append(records, time.Since(began)/size)
		if err := e.StreamSynchronize(stream); err != nil {
			return fmt.Errorf("synchronizing the stream: %w", err)
		}
		if time.Now().After(enough) {
			break
		}
	}
	enough = time.Now().Add(budget)
	for i := range trips {
		if err := e.at("round trip %d of %d", i+1, trips); err != nil {
			return err
		}
		began := time.Now()
		if err := e.recordAndWait(event, stream); err != nil {
			return err
		}
		roundTrips = append(roundTrips, time.Since(began))
		if time.Now().After(enough) {
			break
		}
	}
	record, trip := newSample(records), newSample(roundTrips)
	e.readings("round_trips", nil, roundTrips)
	for key, s := range map[string]sample{"record": record, "round_trip": trip} {
		e.nanoseconds(key+"_median", s.median())
		e.nanoseconds(key+"_min", s.quantile(0))
		e.nanoseconds(key+"_p95", s.quantile(0.95))
	}
	e.measured("record %v (min %v, p95 %v), record and wait %v (min %v, p95 %v)",
		record.median(), record.quantile(0), record.quantile(0.95), trip.median(), trip.quantile(0), trip.quantile(0.95))
	switch {
	case record.median() > absurdRecord:
		return fmt.Errorf("queueing a record takes the host %v", record.median())
	case trip.median() > absurdRoundTrip:
		return fmt.Errorf("a record and the wait for it take %v on an idle stream", trip.median())
	}
	return nil
}
