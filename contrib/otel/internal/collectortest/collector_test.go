package collectortest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
)

// collector is the OpenTelemetry Collector with a receiver for OTLP over HTTP; what comes
// out at the end of its pipelines is kept.
type collector struct {
	address string
	traces  consumertest.TracesSink
	metrics consumertest.MetricsSink
}

const config = `
receivers:
  otlp:
    protocols:
      http:
        endpoint: %s
exporters:
  keep:
service:
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [keep]
    metrics:
      receivers: [otlp]
      exporters: [keep]
`

func newCollector(t *testing.T) *collector {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &collector{address: free.Addr().String()}
	require.NoError(t, free.Close())

	service := c.service(t, fmt.Sprintf(config, c.address))
	ended := make(chan error, 1)
	go func() { ended <- service.Run(context.Background()) }()
	for service.GetState() != otelcol.StateRunning {
		select {
		case err := <-ended:
			require.NoError(t, err, "the collector does not start")
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Cleanup(func() {
		service.Shutdown()
		require.NoError(t, <-ended)
	})
	return c
}

func (c *collector) service(t *testing.T, config string) *otelcol.Collector {
	t.Helper()
	service, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(),
		Factories: c.factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{"yaml:" + config},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
		DisableGracefulShutdown: true,
	})
	require.NoError(t, err)
	return service
}

// What README shows is a configuration that the collector takes.
func TestCollectorTakesTheConfigurationOfReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(readme, -1)
	require.Len(t, blocks, 1)
	shown := string(blocks[0][1])
	require.NoError(t, new(collector).service(t, shown).DryRun(t.Context()))
	require.Error(t, new(collector).service(t, strings.Replace(shown, "batch:", "batsh:", 1)).DryRun(t.Context()))
}

func (c *collector) factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap(otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	nothing := func() component.Config { return &struct{}{} }
	keep := exporter.NewFactory(component.MustNewType("keep"), nothing,
		exporter.WithTraces(func(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
			return traces{Traces: &c.traces}, nil
		}, component.StabilityLevelStable),
		exporter.WithMetrics(func(context.Context, exporter.Settings, component.Config) (exporter.Metrics, error) {
			return metrics{Metrics: &c.metrics}, nil
		}, component.StabilityLevelStable))
	exporters, err := otelcol.MakeFactoryMap(keep, otlphttpexporter.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	processors, err := otelcol.MakeFactoryMap(batchprocessor.NewFactory())
	return otelcol.Factories{Receivers: receivers, Processors: processors, Exporters: exporters, Telemetry: telemetry.NewFactory(nothing)}, err
}

type traces struct {
	component.StartFunc
	component.ShutdownFunc
	consumer.Traces
}

type metrics struct {
	component.StartFunc
	component.ShutdownFunc
	consumer.Metrics
}
