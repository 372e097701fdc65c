package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/events"
)

// "No GPU" has many causes, and a number alone misleads: NVIDIA/warp#219,
// numba/numba#9732, ollama/ollama#3417, celeritas-project/celeritas#2226. A caller must
// be able to tell "none" from "failed", at an exit code that is not 0:
// canonical/checkbox#119, tobocop2/lilbee#389.
func TestEachCauseHasItsSentenceItsCodeAndItsHint(t *testing.T) {
	sentences := map[string]string{}
	for _, c := range []struct {
		fake string
		code int32
		name string
		as   events.Cause
		hint string
	}{
		{"count_code=3", 3, "cudaErrorInitializationError", events.CauseSystemNotReady, "not-initialized"},
		{"count_code=34", 34, "cudaErrorStubLibrary", events.CauseStubDriver, "stub-driver"},
		{"count_code=35", 35, "cudaErrorInsufficientDriver", events.CauseDriverMissing, "insufficient-driver"},
		{"count_code=36", 36, "cudaErrorCallRequiresNewerDriver", events.CauseDriverError, "call-needs-newer-driver"},
		{"count_code=46", 46, "cudaErrorDevicesUnavailable", events.CauseDriverError, "devices-unavailable"},
		{"count_code=100", 100, "cudaErrorNoDevice", events.CauseNoDevice, "no-device"},
		{"count_code=802", 802, "cudaErrorSystemNotReady", events.CauseSystemNotReady, "fabric-manager"},
		{"count_code=803", 803, "cudaErrorSystemDriverMismatch", events.CauseSystemNotReady, "version-mismatch"},
		{"count_code=804", 804, "cudaErrorCompatNotSupportedOnDevice", events.CauseSystemNotReady, "compatibility"},
		{"count_code=805", 805, "cudaErrorMpsConnectionFailed", events.CauseDriverError, "mps-unreachable"},
		{"count_code=807", 807, "cudaErrorMpsServerNotReady", events.CauseDriverError, "mps-not-ready"},
		{"count_code=999", 999, "cudaErrorUnknown", events.CauseDriverError, "unknown-error"},
	} {
		t.Run(c.fake, func(t *testing.T) {
			orders := []string{"EVPROBE_FAKE=" + c.fake, "CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void"}
			got := finish(t, onFake(t, orders, "-backend", "cuda", "-json"))
			require.Equal(t, exitUnavailable, got.code)
			doc := got.document(t)
			require.Equal(t, document.Unavailable, doc.Outcome)
			require.Len(t, doc.Unavailable, 1)
			u := doc.Unavailable[0]
			require.Equal(t, c.as, u.Cause)
			require.Equal(t, c.code, u.Code)
			require.Equal(t, c.name, u.CodeName)
			require.NotNil(t, u.Hint)
			require.Equal(t, c.hint, u.Hint.ID)
			require.Equal(t, u.Hint.Text, doc.Hints[0].Text)
			require.Equal(t, "evprobe: "+doc.Summary+"\n", got.stderr)
			require.Equal(t, 1, strings.Count(got.stderr, "\n"))
			require.Contains(t, got.stderr, u.Hint.Text)
			if c.hint == "no-device" {
				require.Contains(t, got.stderr, `CUDA_VISIBLE_DEVICES="" (hides every device), NVIDIA_VISIBLE_DEVICES="void" (hides every device)`)
			}
			sentence := strings.ReplaceAll(doc.Summary, u.Path, "")
			require.Empty(t, sentences[sentence], "the same is said of %s", sentences[sentence])
			sentences[sentence] = c.fake
			require.Empty(t, validate(t, got.stdout))
		})
	}
}

// A driver that counts its devices and then does nothing for anybody.
func TestCodeInACheckIsInTheDocumentWithItsHint(t *testing.T) {
	t.Parallel()
	got := finish(t, onFake(t, []string{"EVPROBE_FAKE=fail_cudaStreamCreateWithFlags=999"}, "check", "order", "tick", "-backend", "cuda", "-json"))
	require.Equal(t, exitFailed, got.code)
	doc := got.document(t)
	require.Equal(t, document.Failed, doc.Outcome)
	for _, r := range doc.Checks {
		require.Equal(t, int32(999), r.Code, r.Name)
		require.Equal(t, "cudaErrorUnknown", r.CodeName)
	}
	require.Len(t, doc.Hints, 1, "one hint for two checks that fail alike")
	require.Equal(t, "unknown-error", doc.Hints[0].ID)
	text := finish(t, onFake(t, []string{"EVPROBE_FAKE=fail_cudaStreamCreateWithFlags=999"}, "check", "order", "-backend", "cuda"))
	require.Contains(t, text.stdout, "  hint: "+doc.Hints[0].Text+"\n")
}

func TestListSaysWhichLibraryAnswersAndWhyOthersDoNot(t *testing.T) {
	t.Parallel()
	cmd := onFake(t, []string{"EVPROBE_FAKE=device_count=3", "DEVEVENTS_HIP=/nonexistent/libamdhip64.so.7"}, "list", "-json")
	got := finish(t, cmd)
	require.Equal(t, exitPassed, got.code, got.stderr)
	require.Empty(t, validate(t, got.stdout))
	doc := got.document(t)
	require.Equal(t, "list", doc.Command)
	var names []string
	for _, b := range doc.Backends {
		names = append(names, b.Name)
	}
	require.Equal(t, []string{"cuda", "hip", "opencl", "mock"}, names)
	cuda, hip := doc.Backends[0], doc.Backends[1]
	require.Equal(t, document.StatusUsable, cuda.Status)
	require.Contains(t, cuda.Library.Path, "fake-cudart.so")
	require.Equal(t, "given by DEVEVENTS_CUDART", cuda.Origin)
	require.Len(t, cuda.Devices, 3)
	require.Equal(t, document.StatusUnavailable, hip.Status)
	require.Equal(t, events.CauseBadOverride, hip.Refusal.Cause)

	text := finish(t, onFake(t, nil, "list", "-backend", "cuda"))
	require.Equal(t, exitPassed, text.code)
	require.Regexp(t, `^cuda: usable\n  library: .*fake-cudart.so \(given by DEVEVENTS_CUDART\), runtime 13.0, driver 13.0\n`, text.stdout)
	require.Contains(t, text.stdout, "  device 0 (gpu): Fake cuda device 0, PCI ")
}

// A crash or a hang of one vendor's library does not hide the others, and is no success.
func TestListNamesABackendThatCrashesOrHangs(t *testing.T) {
	t.Parallel()
	for deed, want := range map[string]struct {
		code   int
		status string
	}{"segv@open": {exitFailed, document.StatusCrashed}, "hang@open": {exitTimedOut, document.StatusHangs}, "stop@open": {exitTimedOut, document.StatusHangs}} {
		t.Run(deed, func(t *testing.T) {
			t.Parallel()
			got := finish(t, onFake(t, []string{"EVPROBE_FAKE_DEED=" + deed}, "list", "-json", "-step-timeout", "300ms"))
			require.Equal(t, want.code, got.code, got.stderr)
			require.Empty(t, validate(t, got.stdout))
			doc := got.document(t)
			require.Equal(t, want.status, doc.Backends[0].Status)
			require.Equal(t, document.StatusUsable, doc.Backends[3].Status, "the others are still listed")
			require.Contains(t, doc.Summary, "cuda")
		})
	}
}
