package hip_test

import (
	"testing"

	"example.com/devevents/events/hip"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/events/internal/fakesuite"
)

// imitated is an imitation of the runtime. It has no spin kernel, as this backend
// has none.
func imitated() fakesuite.Vendor[hip.Vendor] {
	return fakesuite.Vendor[hip.Vendor]{
		Fake:   []fakert.Option{fakert.Name("fake-hip.so"), fakert.Vendor("hip")},
		Open:   func(path string) (*hip.Runtime, error) { return hip.Open(hip.WithLibrary(path)) },
		NoSpin: true,
	}
}

// The whole contract on an imitation of the runtime.
func TestConformanceOnTheFake(t *testing.T) { imitated().Run(t) }

func TestConformanceBesideAStorm(t *testing.T) { imitated().RunBesideStorm(t) }
