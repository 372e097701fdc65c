package probe

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"example.com/devevents/events"
)

// state is a condition that an event can be in, and the error that elapsed owes
// for it; nil where there is a time to read.
type state[E any] struct {
	name  string
	event E
	owed  error
}

func checkAnswers[E any, S comparable](e *env[E, S]) error {
	stream, evs, err := e.streamAndEvents(5)
	if err != nil {
		return err
	}
	done, done2, held := evs[2], evs[3], evs[4]
	for _, v := range []E{done, done2} {
		if err := e.recordAndWait(v, stream); err != nil {
			return err
		}
	}
	var gone, zero E
	if gone, err = e.EventCreate(); err != nil {
		return fmt.Errorf("making an event: %w", err)
	}
	if err = e.EventDestroy(gone); err != nil {
		return fmt.Errorf("destroying an event: %w", err)
	}

	starts := []state[E]{
		{"recorded", done, nil},
		{"never recorded", evs[0], events.ErrNotRecorded},
		{"destroyed", gone, events.ErrDestroyed},
		{"zero", zero, events.ErrInvalid},
	}
	var missing []string
	if e.untimed != nil {
		untimed, err := e.untimed.EventCreateUntimed(true)
		if err != nil {
			return fmt.Errorf("making an event without a timestamp: %w", err)
		}
		e.giveBack = append(e.giveBack, func() error { return e.EventDestroy(untimed) })
		if err := e.recordAndWait(untimed, stream); err != nil {
			return fmt.Errorf("an event without a timestamp: %w", err)
		}
		starts = append(starts, state[E]{"untimed", untimed, events.ErrTimingDisabled})
	} else {
		missing = append(missing, "untimed")
	}
	ends := append([]state[E]{}, starts...)
	ends[0].event, ends[1].event = done2, evs[1]

	var wrong []string
	asked := 0
	expect := func(what string, owed, got error) {
		asked++
		if owed == nil && got != nil || owed != nil && !errors.Is(got, owed) {
			wrong = append(wrong, fmt.Sprintf("%s: expected %q, got %s", what, text(owed), text(got)))
		}
	}

	for _, s := range starts[1:] {
		if s.owed == events.ErrTimingDisabled { //nolint:errorlint // our own table, not an error that came back
			continue // it can be waited for and asked about
		}
		if err := e.at("asking about an event that is %s", s.name); err != nil {
			return err
		}
		if e.query != nil {
			_, err := e.query.EventQuery(s.event)
			expect("query of an event that is "+s.name, s.owed, err)
		}
		expect("wait for an event that is "+s.name, s.owed, e.EventWait(s.event))
		expect("stream wait for an event that is "+s.name, s.owed, e.StreamWaitEvent(stream, s.event))
	}
	var noStream S
	expect("record on the zero stream", events.ErrInvalid, e.EventRecord(done, noStream))
	// The refused record took the stamp of one; the other follows it again.
	for _, v := range []E{done, done2} {
		if err := e.recordAndWait(v, stream); err != nil {
			return err
		}
	}

	release, err := e.hold(stream)
	switch {
	case err == nil:
		defer func() { _ = release() }()
		if err := e.EventRecord(held, stream); err != nil {
			return fmt.Errorf("recording behind the hold: %w", err)
		}
		pending := state[E]{"pending", held, events.ErrNotReady}
		starts, ends = append(starts, pending), append(ends, pending)
		if e.query != nil {
			reached, err := e.query.EventQuery(held)
			expect("query of an event that is pending", nil, err)
			if err == nil && reached {
				wrong = append(wrong, "query of an event that is pending: reached")
			}
		}
	case errors.Is(err, errNoHold):
		missing = append(missing, "pending")
	default:
		return err
	}

	for _, s := range starts {
		for _, t := range ends {
			what := fmt.Sprintf("elapsed from an event that is %s to one that is %s", s.name, t.name)
			if err := e.at("%s", what); err != nil {
				return err
			}
			span, err := e.EventElapsed(s.event, t.event)
			asked++
			if complaint := judge(span, s.owed, t.owed, err); complaint != "" {
				wrong = append(wrong, what+": "+complaint)
			}
		}
	}
	if release != nil {
		if err := release(); err != nil {
			return fmt.Errorf("the pending event was let go while it was asked about: %w", err)
		}
	}
	e.count("questions", asked)
	e.count("wrong_answers", len(wrong))
	e.measured("%d of %d answers right", asked-len(wrong), asked)
	if missing != nil {
		e.measured("not asked, because the backend cannot make such events: %s", strings.Join(missing, ", "))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong[:min(len(wrong), 4)], "; "))
	}
	return nil
}

var (
	saysStart = regexp.MustCompile(`(?i)\bstart\b`)
	saysEnd   = regexp.MustCompile(`(?i)\bend\b`)
)

// judge says what is wrong with elapsed's answer for a pair of states, or
// nothing. Where both are at fault either may be named.
func judge(span time.Duration, start, end, got error) string {
	expected := ""
	switch {
	case start == nil && end == nil:
		if got != nil {
			expected = "a span"
		}
	case got == nil, !errors.Is(got, start) && !errors.Is(got, end):
		expected = fmt.Sprintf("%q", text(errors.Join(start, end)))
	case end == nil && !saysStart.MatchString(got.Error()):
		expected = "the text to name the start event"
	case start == nil && !saysEnd.MatchString(got.Error()):
		expected = "the text to name the end event"
	case span != 0:
		return fmt.Sprintf("an error, and yet a span of %v", span)
	}
	if expected == "" {
		return ""
	}
	return fmt.Sprintf("expected %s, got %s", expected, text(got))
}

func text(err error) string {
	if err == nil {
		return "success"
	}
	return strings.ReplaceAll(err.Error(), "\n", " or ")
}
