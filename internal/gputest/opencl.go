package gputest

import (
	"os"
	"strings"
	"testing"

	"example.com/devevents/events/opencl"
)

// OpenCL skips a test where there is no OpenCL device; with
// DEVEVENTS_REQUIRE_OPENCL=1 in the environment it fails there.
func OpenCL(tb testing.TB) {
	tb.Helper()
	_, err := opencl.Open()
	if err == nil {
		return
	}
	if os.Getenv("DEVEVENTS_REQUIRE_OPENCL") == "1" {
		tb.Fatalf("DEVEVENTS_REQUIRE_OPENCL is set and there is no OpenCL device: %v", err)
	}
	reason, _, _ := strings.Cut(err.Error(), "\n")
	tb.Skip("needs an OpenCL device: " + reason)
}
