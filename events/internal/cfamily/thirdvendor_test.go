package cfamily_test

import (
	_ "embed"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/eventstest"
	"example.com/devevents/events/internal/cfamily"
	"example.com/devevents/events/internal/fakert"
)

//go:embed thirdvendor_table_test.go
var tableFile string

func TestThirdVendorIsOneTableFile(t *testing.T) {
	require.NotEmpty(t, tableFile)
	require.LessOrEqual(t, strings.Count(tableFile, "\n"), 150)
}

// A vendor added by one table passes the whole contract, on two devices.
func TestConformanceOfAThirdVendor(t *testing.T) {
	type (
		device = cfamily.Device[musa]
		event  = cfamily.Event[musa]
		stream = cfamily.Stream[musa]
		api    = events.EventApi[event, stream]
	)
	controls := map[string]*fakert.Runtime{}
	var opened *cfamily.Runtime[musa]
	get := func(tb testing.TB, i int) device {
		dev, err := opened.Device(i)
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, dev.Close()) })
		return dev
	}
	control := func(a api) *fakert.Runtime { return controls[a.(device).Library()] }
	eventstest.Run(t, eventstest.Backend[event, stream]{
		Open: func(tb testing.TB) api {
			path := fakert.Build(tb, fakert.Vendor("musa"))
			ctl := fakert.Control(tb, path)
			ctl.Set("device_count", 2)
			var err error
			opened, err = cfamily.Open[musa](musaTable(), nil, []cfamily.Option{cfamily.WithLibrary(path)})
			require.NoError(tb, err)
			dev := get(tb, 0)
			controls[dev.Library()] = ctl
			return dev
		},
		Second: func(tb testing.TB) api { return get(tb, 1) },
		Work: func(a api, s stream, d time.Duration) error {
			control(a).Work(s.Handle(), d.Nanoseconds())
			return nil
		},
		FailRecord: func(a api) func() {
			control(a).Set("fail_EventRecord", 400)
			return func() { control(a).Set("fail_EventRecord", 0) }
		},
		LoseDevice: func(a api) { control(a).Set("sticky_code", 700) },
	})
}
