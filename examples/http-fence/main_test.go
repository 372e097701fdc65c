package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/fence"
	"example.com/devevents/internal/gputest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnswersWaitForTheirWorkOnTheSimulatedDevice(t *testing.T) { serve(t, "mock") }

func TestAnswersWaitForTheirWorkThroughOpenCL(t *testing.T) {
	gputest.OpenCL(t)
	serve(t, "opencl")
}

func TestGPUAnswersWaitForTheirWork(t *testing.T) {
	gputest.Device(t)
	serve(t, "cuda")
}

// serve asks a running service for work that is done in time, work that is not, and
// work that the client gives up, and stops it.
func serve(t *testing.T, backend string) {
	ctx, stop := context.WithCancel(context.Background())
	addr := make(chan net.Addr, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-backend", backend, "-addr", "localhost:0"}, func(a net.Addr) { addr <- a })
	}()
	var base string
	select {
	case a := <-addr:
		base = "http://" + a.String()
	case err := <-ended:
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	get := func(ctx context.Context, path string) (int, string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, string(body), err
	}

	const inTime = 20
	var wg sync.WaitGroup
	for range inTime {
		wg.Go(func() {
			code, body, err := get(t.Context(), "/work?ms=2")
			if err != nil || code != http.StatusOK {
				t.Errorf("%d %q %v", code, body, err)
			}
		})
	}
	wg.Wait()
	code, body, err := get(t.Context(), "/work?ms=300&within=20ms")
	require.NoError(t, err)
	require.Equal(t, http.StatusGatewayTimeout, code)
	require.Regexp(t, `^not done within 20ms: fence \d+ of `+backend+` device 0 .*, pending for `, body)
	gone, leave := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer leave()
	_, _, err = get(gone, "/work?ms=300")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	for _, wrong := range []string{"/work", "/work?ms=0", "/work?ms=5&within=soon"} {
		code, _, err = get(t.Context(), wrong)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, code, wrong)
	}

	require.Eventually(t, func() bool {
		_, body, err := get(t.Context(), "/stats")
		require.NoError(t, err)
		var st fence.Stats
		require.NoError(t, json.Unmarshal([]byte(body), &st))
		return st.Recorded == inTime+2 && st.GivenUp == 2 && st.Waiting == 0
	}, 20*time.Second, 5*time.Millisecond)
	client.CloseIdleConnections()
	stop()
	require.NoError(t, <-ended)
}

func TestUnknownBackendIsRefused(t *testing.T) {
	err := run(t.Context(), []string{"-backend", "none"}, func(a net.Addr) { t.Error(fmt.Sprint("listening on ", a)) })
	require.ErrorContains(t, err, "mock, cuda or opencl")
}
