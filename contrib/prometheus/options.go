package gpuprom

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"
)

// Option changes how New sets a collector up.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	names  int
	labels prometheus.Labels
}

// WithMaxNames bounds how many names of windows become series: the n that came first. All
// others are counted as "other". Default 256.
func WithMaxNames(n int) Option { return optionFunc(func(c *config) { c.names = n }) }

// WithConstLabels adds labels to every metric. All collectors of one registry must have
// the same names of labels.
func WithConstLabels(labels prometheus.Labels) Option {
	return optionFunc(func(c *config) { maps.Copy(c.labels, labels) })
}
