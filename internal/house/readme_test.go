package house_test

import (
	"fmt"
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
	results := []string{"span", "took"} // what each block ends with
	require.Len(t, blocks, len(results))

	var code strings.Builder
	code.WriteString("package main\n")
	for _, name := range []string{"context", "go.uber.org/zap", module + "/events/cuda", module + "/events/mock", module + "/profiler"} {
		fmt.Fprintf(&code, "import %q\n", name)
	}
	for i, block := range blocks {
		fmt.Fprintf(&code, "func block%d(ctx context.Context, log *zap.Logger, sink profiler.Sink, handle uintptr, enqueue func(uintptr)) error {\n%s\n_ = %s\nreturn err\n}\n",
			i, block[1], results[i])
	}
	code.WriteString("func main() { _ = mock.NewDevice; _ = cuda.Open }\n")
	buildProgram(t, top, code.String())
}
