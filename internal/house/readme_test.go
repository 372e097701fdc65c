package house_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What README shows is code that builds.
func TestCodeInReadmeBuilds(t *testing.T) {
	top := root(t)
	module := goMod(t, top).Module.Path
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(read(t, top, "README.md"), -1)
	require.Len(t, blocks, 3)
	buildProgram(t, top, blocks[0][1]) // a whole program
	blocks = blocks[1:]
	results := []string{"dev", "took"} // what each block ends with

	var code strings.Builder
	code.WriteString("package main\n")
	for _, name := range []string{module + "/events/cuda", module + "/events/mock"} {
		fmt.Fprintf(&code, "import %q\n", name)
	}
	for i, block := range blocks {
		fmt.Fprintf(&code, "func block%d() error {\n%s\n_ = %s\nreturn err\n}\n", i, block[1], results[i])
	}
	code.WriteString("func main() { _ = mock.NewDevice; _ = cuda.Open }\n")
	buildProgram(t, top, code.String())
}

// The program to begin with builds, runs and prints its table.
func TestProgramInBenchPageRuns(t *testing.T) {
	top := root(t)
	blocks := regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```").FindAllStringSubmatch(read(t, top, "docs/bench.md"), -1)
	require.Len(t, blocks, 1)
	require.Contains(t, command(t, top, buildProgram(t, top, blocks[0][1])), "memory")
}

// So is what the page about sinks shows.
func TestCodeInSinksPageBuilds(t *testing.T) {
	top := root(t)
	module := goMod(t, top).Module.Path
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(read(t, top, "docs/sinks.md"), -1)
	params := []string{
		"dev *mock.Device, stream mock.Stream, enqueue func(context.Context) error",
		"dev *mock.Device",
		"ctx context.Context, prof *profiler.Profiler[mock.Stream], metrics, log profiler.Sink",
	}
	require.Len(t, blocks, len(params))
	var code strings.Builder
	code.WriteString("package main\n")
	for _, name := range []string{"context", "errors", "net/http", "os", "time", module + "/events/mock", module + "/profiler", module + "/profiler/gpupprof", module + "/profiler/timeline"} {
		fmt.Fprintf(&code, "import %q\n", name)
	}
	for i, block := range blocks {
		fmt.Fprintf(&code, "func block%d(%s) (err error) {\n%s\nreturn err\n}\n", i, params[i], block[1])
	}
	code.WriteString("func main() {}\n")
	buildProgram(t, top, code.String())
}

// So is what the nested modules show, where all that it imports is at hand.
func TestCodeInReadmesOfBridgesBuilds(t *testing.T) {
	top := root(t)
	module := goMod(t, top).Module.Path
	for _, bridge := range []struct {
		dir, in string
		imports []string
		params  string
	}{
		{"contrib/otel", "contrib/otel/internal/collectortest", []string{
			"context", "errors", "go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp", "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp",
			"go.opentelemetry.io/otel/sdk/metric", "go.opentelemetry.io/otel/sdk/resource", "go.opentelemetry.io/otel/sdk/trace",
		}, "ctx context.Context, stream mock.Stream, enqueue func(), serve func(func(context.Context)), "},
		{"contrib/prometheus", "contrib/prometheus", []string{
			"net/http", "github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_golang/prometheus/promhttp",
		}, ""},
	} {
		blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(read(t, top, bridge.dir+"/README.md"), -1)
		require.Len(t, blocks, 1)
		var code strings.Builder
		code.WriteString("package main\n")
		for _, name := range append(bridge.imports, module+"/"+bridge.dir, module+"/events/mock", module+"/profiler") {
			fmt.Fprintf(&code, "import %q\n", name)
		}
		fmt.Fprintf(&code, "func block(%sdev *mock.Device) error {\n%s\nreturn err\n}\nfunc main() {}\n", bridge.params, blocks[0][1])
		buildProgram(t, filepath.Join(top, bridge.in), code.String())
	}
}
