package gpuotel

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"example.com/devevents/events"
)

// Option changes how New sets a sink up.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	names      int
	hold       time.Duration
	attributes []attribute.KeyValue
}

func configOf(opts []Option) (config, error) {
	cfg := config{names: 256, hold: 5 * time.Second}
	for i, o := range opts {
		if o == nil {
			return cfg, fmt.Errorf("gpuotel: %w: option %d is nil", events.ErrInvalid, i)
		}
		o.apply(&cfg)
	}
	var wrong []error
	if cfg.names < 1 {
		wrong = append(wrong, fmt.Errorf("gpuotel: %w: at most %d names; at least 1", events.ErrInvalid, cfg.names))
	}
	if cfg.hold < 0 {
		wrong = append(wrong, fmt.Errorf("gpuotel: %w: windows held for %v; 0 or longer", events.ErrInvalid, cfg.hold))
	}
	if cfg.tracers == nil {
		cfg.tracers = otel.GetTracerProvider()
	}
	if cfg.meters == nil {
		cfg.meters = otel.GetMeterProvider()
	}
	return cfg, errors.Join(wrong...)
}

// WithTracerProvider sets where spans go. Default, and for nil: the global provider. The
// no-op provider of go.opentelemetry.io/otel/trace/noop leaves the metric alone.
func WithTracerProvider(p trace.TracerProvider) Option {
	return optionFunc(func(c *config) { c.tracers = p })
}

// WithMeterProvider sets where the histogram goes. Default, and for nil: the global provider.
func WithMeterProvider(p metric.MeterProvider) Option {
	return optionFunc(func(c *config) { c.meters = p })
}

// WithMaxNames bounds how many names of windows become names of spans and labels of the
// histogram: the n that came first. All others are "other" there, and a span has its
// window's own name as an attribute in any case. Default 256.
func WithMaxNames(n int) Option { return optionFunc(func(c *config) { c.names = n }) }

// WithHold sets how long a finished window waits for the window that it lies in, which
// ends later, to become its child. After that it is made a span without it. 0 waits for
// none. Default 5 s.
func WithHold(d time.Duration) Option { return optionFunc(func(c *config) { c.hold = d }) }

// WithAttributes adds attributes to every span and every point of the histogram. They
// should be few, and the same for the life of the process.
func WithAttributes(attributes ...attribute.KeyValue) Option {
	return optionFunc(func(c *config) { c.attributes = append(c.attributes, attributes...) })
}
