package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// safe is a buffer that two goroutines use.
type safe struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func start(t *testing.T, args ...string) (url string, out *safe, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out = &safe{}
	ended := make(chan error, 1)
	listening := make(chan string, 1)
	go func() {
		ended <- run(ctx, append([]string{"-addr", "localhost:0"}, args...), out, func(a net.Addr) { listening <- a.String() })
	}()
	select {
	case addr := <-listening:
		url = "http://" + addr
	case err := <-ended:
		require.NoError(t, err)
	}
	return url, out, sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, text
}

// A newcomer sees all four views of one run.
func TestEveryViewShowsTheRequests(t *testing.T) {
	url, out, end := start(t, "-load", "40", "-spans")
	defer end()
	code, page := get(t, url)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, string(page), "/debug/gpu/trace")

	code, profile := get(t, url+"/debug/pprof/gpu?seconds=1")
	require.Equal(t, http.StatusOK, code, "%s", profile)
	if _, err := exec.LookPath("go"); err == nil {
		file := filepath.Join(t.TempDir(), "gpu.pb.gz")
		require.NoError(t, os.WriteFile(file, profile, 0o600))
		text, err := exec.Command("go", "tool", "pprof", "-top", "-cum", "-nodefraction=0", file).CombinedOutput()
		require.NoError(t, err, "%s", text)
		for _, want := range []string{"gpu:prefill", "gpu:decode", "gpu:request", "(*service).decode", "(*service).prefill", "(*service).infer"} {
			require.Contains(t, string(text), want)
		}
	}

	code, trace := get(t, url+"/debug/gpu/trace?seconds=0.5")
	require.Equal(t, http.StatusOK, code, "%s", trace)
	var events []map[string]any
	require.NoError(t, json.Unmarshal(trace, &events))
	require.Contains(t, string(trace), `"name":"decode"`)

	require.Eventually(t, func() bool {
		_, text := get(t, url+"/metrics")
		return strings.Contains(string(text), `gpu_window_duration_seconds_count{`) && strings.Contains(string(text), `window="decode"`)
	}, time.Minute, 50*time.Millisecond)

	end()
	require.Contains(t, out.String(), `"Name":"decode"`)
	require.Contains(t, out.String(), `"Name":"POST /infer"`)
}

func TestBadRequestsAreTold(t *testing.T) {
	url, _, end := start(t)
	defer end()
	for _, bad := range []string{"0", "-1", "x", "257"} {
		answer, err := http.Post(url+"/infer?tokens="+bad, "", nil)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusBadRequest, answer.StatusCode)
		require.Contains(t, string(text), "from 1 to 256")
	}
	answer, err := http.Post(url+"/infer?tokens=2", "", nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
}
