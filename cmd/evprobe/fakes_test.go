package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var imitation struct {
	once sync.Once
	code []byte
	err  string
}

// fakeCUDA is an imitation of CUDA's libraries in one file, which follows the orders
// that testdata/script.c explains.
func fakeCUDA(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the imitation of a runtime is for Linux")
	}
	source := filepath.Join("..", "..", "events", "internal", "fakert", "testdata", "fake_runtime.c")
	cc, err := exec.LookPath("cc")
	if _, missing := os.Stat(source); err != nil || missing != nil {
		if os.Getenv("DEVEVENTS_REQUIRE_CC") == "1" || os.Getenv("CI") == "true" {
			t.Fatalf("the imitation of a runtime needs a C compiler and its source: %v, %v", err, missing)
		}
		t.Skipf("the imitation of a runtime needs a C compiler and its source: %v, %v", err, missing)
	}
	imitation.once.Do(func() {
		dir := t.TempDir()
		object, out := filepath.Join(dir, "fake.o"), filepath.Join(dir, "fake.so")
		flags := []string{"-fPIC", "-O2", "-pthread", "-fvisibility=hidden"}
		for _, args := range [][]string{
			append(flags, "-DcudaEventRecord=real_cudaEventRecord", "-c", source, "-o", object),
			append(flags, "-shared", "-o", out, object, filepath.Join("testdata", "script.c")),
		} {
			if said, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
				imitation.err = err.Error() + "\n" + string(said)
				return
			}
		}
		imitation.code, err = os.ReadFile(out)
		if err != nil {
			imitation.err = err.Error()
		}
	})
	require.Empty(t, imitation.err)
	path := filepath.Join(t.TempDir(), "fake-cudart.so")
	require.NoError(t, os.WriteFile(path, imitation.code, 0o755))
	return path
}

// onFake is evprobe in a process of its own, with the imitation for CUDA.
func onFake(t *testing.T, orders []string, args ...string) *exec.Cmd {
	t.Helper()
	library := fakeCUDA(t)
	cmd := program(t, args...)
	cmd.Env = append(cmd.Env, "DEVEVENTS_CUDART="+library, "DEVEVENTS_CUDA_DRIVER="+library)
	cmd.Env = append(cmd.Env, orders...)
	return cmd
}

// finish runs a command to its end.
func finish(t *testing.T, cmd *exec.Cmd) output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return output{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
