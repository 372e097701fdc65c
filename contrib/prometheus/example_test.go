package gpuprom_test

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	gpuprom "example.com/devevents/contrib/prometheus"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

func Example() {
	registry := prometheus.NewRegistry() // served by promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	metrics, err := gpuprom.New("gpu0")
	if err != nil {
		fmt.Println(err)
		return
	}
	dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal()) // in a service: cuda.Open
	stream, err := dev.StreamCreateNonBlocking()
	if err != nil {
		fmt.Println(err)
		return
	}
	prof, err := profiler.New(dev, profiler.WithSink(metrics))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := metrics.Watch(prof); err != nil {
		fmt.Println(err)
	}
	if err := registry.Register(metrics); err != nil {
		fmt.Println(err)
	}

	decode := prof.Track(stream, "decode")
	w := decode.Start()
	if err := dev.Work(stream, 3*time.Millisecond); err != nil { // what the service does
		fmt.Println(err)
	}
	decode.Stop(w)
	if err := dev.StreamSynchronize(stream); err != nil {
		fmt.Println(err)
	}
	if err := prof.Close(); err != nil {
		fmt.Println(err)
	}

	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, family := range families {
		if family.GetName() == "gpu_window_duration_seconds" {
			h := family.GetMetric()[0].GetHistogram()
			fmt.Println(h.GetSampleCount(), "window of", h.GetSampleSum(), "s")
		}
	}
	// Output:
	// 1 window of 0.003 s
}
