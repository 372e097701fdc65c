package eventstest

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// measuringBreakers are wrong in what harnesses need.
func measuringBreakers() []breaker {
	return []breaker{
		{name: "cache of no size", rule: "cache-size", flaw: func(*mock.Device, testing.TB) flaws {
			return flaws{cacheBytes: func() (int64, error) { return 0, nil }}
		}},
		{name: "cache of another size each time", rule: "cache-size", flaw: func(*mock.Device, testing.TB) flaws {
			var n atomic.Int64
			return flaws{cacheBytes: func() (int64, error) { return n.Add(1), nil }}
		}},
		{name: "device is not waited for", rule: "synchronize-device", flaw: func(*mock.Device, testing.TB) flaws {
			return flaws{syncAll: func() error { return nil }}
		}},
		{name: "another version each time", rule: "versions-stable", flaw: func(*mock.Device, testing.TB) flaws {
			var n atomic.Int64
			return flaws{versions: func() (string, string) { return "1." + strconv.FormatInt(n.Add(1), 10), "" }}
		}},
		{name: "empty kernel is work", rule: "empty-kernel", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{empty: func(s mock.Stream) error { return d.Work(s, 500*time.Millisecond) }}
		}},
		{name: "reads beyond the buffer", rule: "read-kernel", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{read: func(b events.Buffer, bytes int64, s mock.Stream) error {
				return d.LaunchRead(b, min(max(bytes, 1), b.Bytes), s)
			}}
		}},
		{name: "read is waited for", rule: "read-kernel", real: true, flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{read: func(b events.Buffer, bytes int64, s mock.Stream) error {
				return errors.Join(d.LaunchRead(b, bytes, s), d.StreamSynchronize(s))
			}}
		}},
	}
}
