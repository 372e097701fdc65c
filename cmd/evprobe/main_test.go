package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/hint"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
	"example.com/devevents/events/hip"
	"example.com/devevents/events/mock"
	"example.com/devevents/internal/gputest"
)

// asProgram makes the test binary behave as evprobe itself.
const asProgram = "EVPROBE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || os.Getenv(asWorker) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// simulated gives a way to a simulated device that goes wrong as scripted.
func simulated(t *testing.T, faults ...mock.Fault) func(int) (*opened, error) {
	return func(ordinal int) (*opened, error) {
		dev := mock.NewDevice()
		dev.Script(faults...)
		t.Cleanup(dev.System().Close) // lets calls that hang go
		return device(dev, probe.About{Device: ordinal, DeviceCount: 1}, dev.Identity(), func() error { return nil }), nil
	}
}

// canned gives a way to a device whose checks have been run already.
func canned(closing func() error, results ...probe.Result) func(int) (*opened, error) {
	if closing == nil {
		closing = func() error { return nil }
	}
	return func(int) (*opened, error) {
		return &opened{close: closing, check: func(_ context.Context, s probe.Settings) probe.Outcome {
			for i, r := range results {
				r.Numbers = map[string]any{}
				s.Watch.Running(i, len(results), r.Name, "")
				s.Watch.Done(r)
			}
			return probe.Outcome{Complete: true, Results: results}
		}}, nil
	}
}

var pass = probe.Result{Name: "order", Verdict: probe.Pass, Measurement: "1000 events"}

func refusing(err error) func(int) (*opened, error) {
	return func(int) (*opened, error) { return nil, err }
}

var missing = &events.UnavailableError{
	Backend: "cuda", Cause: events.CauseLibraryMissing, Detail: "found nothing that could be loaded",
	Advice: "install a driver", Candidates: []events.Candidate{{Path: "libcudart.so.13", Reason: "not there"}},
}

// quick makes the checks short.
var quick = probe.Settings{DriftSpan: 20 * time.Millisecond, Grace: 50 * time.Millisecond}

// output is what one run left behind.
type output struct {
	code           int
	stdout, stderr string
}

// document reads stdout, which must hold exactly one document.
func (o output) document(t *testing.T) document.Document {
	t.Helper()
	var doc document.Document
	dec := json.NewDecoder(strings.NewReader(o.stdout))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&doc), "stdout: %q", o.stdout)
	_, err := dec.Token()
	require.ErrorIs(t, err, io.EOF, "more than one document on stdout")
	return doc
}

// evprobe runs the command with the given ways to a device: cuda, then mock.
func evprobe(ctx context.Context, cuda, simulated func(int) (*opened, error), args ...string) output {
	var stdout, stderr bytes.Buffer
	c := command{
		backends: []backend{{name: "cuda", auto: true, open: cuda}, {name: "mock", open: simulated}},
		stdout:   &stdout, stderr: &stderr, settings: quick,
	}
	code := c.run(ctx, args)
	return output{code, stdout.String(), stderr.String()}
}

// Machines read the document at every exit code, and people get one line on
// stderr: wilicc/gpu-burn#6, canonical/checkbox#119, bigstack-oss/cubecos#1340,
// tobocop2/lilbee#389.
func TestEveryExitCodeComesWithADocument(t *testing.T) {
	hang := mock.Fault{Op: mock.OpEventRecord, Hang: true}
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	hangs := func(int) (*opened, error) { <-never; return nil, missing }
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()

	for _, tc := range []struct {
		name    string
		ctx     context.Context
		open    func(int) (*opened, error)
		args    string
		code    int
		outcome string
		summary string
	}{
		{"all passed", nil, simulated(t), "", 0, "passed", "17 of 18 checks passed, 0 failed, 1 skipped"},
		{"a check failed", nil, simulated(t, mock.Fault{Op: mock.OpEventElapsed, Reading: mock.Reads(0)}), "", 1, "failed", "do not rely"},
		{"device lost", nil, simulated(t, mock.Fault{Op: mock.OpEventCreate, Nth: 3, Lose: true}), "", 1, "failed", "do not rely"},
		{"nothing ran", nil, canned(nil, probe.Result{Verdict: probe.Skip}), "", 1, "failed", "nothing was measured"},
		{"close failed", nil, canned(func() error { return errors.New("busy") }, pass), "", 1, "failed", "could not be closed: busy"},
		{"unknown flag", nil, simulated(t), "-frob", 2, "usage", "flag provided but not defined: -frob"},
		{"unknown backend", nil, simulated(t), "-backend metal", 2, "usage", "-backend takes auto|cuda|mock"},
		{"negative device", nil, simulated(t), "-device -1", 2, "usage", "counted from 0"},
		{"no time", nil, simulated(t), "-timeout 0s", 2, "usage", "above 0"},
		{"not a duration", nil, simulated(t), "-timeout soon", 2, "usage", "soon"},
		{"argument", nil, simulated(t), "gpu0", 2, "usage", `unexpected argument "gpu0"`},
		{"no library", nil, refusing(missing), "", 3, "unavailable", "cuda unavailable (library-missing)"},
		{"no such device", nil, refusing(noSuchDevice("cuda", 7, 2)), "-device 7", 3, "unavailable", "device 7 was asked for and there are 2"},
		{"refused without a reason", nil, refusing(errors.New("odd")), "", 3, "unavailable", "odd"},
		{"hang in a check", nil, simulated(t, hang), "-timeout 300ms", 5, "timed-out", "timed out after 300ms in handles, which hangs"},
		{"hang in open", nil, hangs, "-timeout 50ms", 5, "timed-out", "timed out after 50ms in open, which hangs"},
		{"hang in close", nil, canned(func() error { <-never; return nil }, pass), "-timeout 50ms", 5, "timed-out", "in close, which hangs"},
		{"interrupted", interrupted, simulated(t), "", 130, "interrupted", "interrupted"},
		{"version", nil, simulated(t), "-version", 0, "version", "evprobe "},
		{"help", nil, simulated(t), "-h", 0, "help", "Exit codes:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx := tc.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			args := append(strings.Fields(tc.args), "-json")
			if tc.args == "gpu0" {
				args = []string{"-json", "gpu0"}
			}
			got := evprobe(ctx, tc.open, tc.open, args...)
			require.Equal(t, tc.code, got.code, got.stderr)
			doc := got.document(t)
			require.Equal(t, 1, doc.Schema)
			require.Empty(t, validate(t, got.stdout))
			require.Equal(t, tc.code, doc.ExitCode)
			require.Equal(t, tc.outcome, doc.Outcome)
			require.Contains(t, doc.Summary, tc.summary)
			require.NotNil(t, doc.Checks)
			require.NotNil(t, doc.Unavailable)
			require.Equal(t, tc.code == 5, doc.Unfinished != nil)
			if tc.code == 0 {
				require.Empty(t, got.stderr)
			} else {
				require.Equal(t, "evprobe: "+doc.Summary+"\n", got.stderr)
				require.Equal(t, 1, strings.Count(got.stderr, "\n"))
			}
		})
	}
}

func TestHungRunKeepsTheChecksThatWereDone(t *testing.T) {
	t.Parallel()
	got := evprobe(t.Context(), simulated(t, mock.Fault{Op: mock.OpEventRecord, Nth: 101, Hang: true}), nil, "-json", "-timeout", "400ms")
	require.Equal(t, exitTimedOut, got.code)
	doc := got.document(t)
	require.Len(t, doc.Checks, len(probe.Names()))
	var verdicts []probe.Verdict
	for _, r := range doc.Checks[:5] {
		verdicts = append(verdicts, r.Verdict)
	}
	require.Equal(t, []probe.Verdict{probe.Skip, probe.Pass, probe.Pass, probe.Fail, probe.Skip}, verdicts)
	require.Equal(t, "record-wait", doc.Unfinished.Check)
	require.True(t, doc.Unfinished.Hung)
	require.NotEmpty(t, doc.Checks[2].Measurement)
}

func TestJSONIsAnsweredInJSONHoweverTheRestIsSpelled(t *testing.T) {
	for args, want := range map[string]bool{
		"-frob -json": true, "--json --frob": true, "-json=true -frob": true, "gpu0 -json": true, "-backend": false,
		"-json=false -frob": false, "-frob": false, "-json=maybe": true, "-- -json": false, "json": false,
	} {
		got := evprobe(t.Context(), refusing(missing), nil, strings.Fields(args)...)
		require.Equal(t, exitUsage, got.code, args)
		require.Equal(t, want, got.stdout != "", args)
		if want {
			require.Equal(t, "usage", got.document(t).Outcome, args)
		}
		require.Contains(t, got.stderr, "evprobe -h lists the flags", args)
	}
}

func TestAutoWithoutAGPUSaysWhyAndNamesTheMock(t *testing.T) {
	got := evprobe(t.Context(), refusing(missing), simulated(t))
	require.Equal(t, exitUnavailable, got.code)
	require.Empty(t, got.stdout)
	require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
	require.Contains(t, got.stderr, "found nothing that could be loaded")
	require.Contains(t, got.stderr, "-backend mock")
	require.NotContains(t, got.stderr, "libcudart.so.13")

	verbose := evprobe(t.Context(), refusing(missing), simulated(t), "-v")
	require.Equal(t, exitUnavailable, verbose.code)
	require.Contains(t, verbose.stderr, "libcudart.so.13")
}

// A driver for the processor must not make a machine whose GPU is out of order pass.
func TestAutoDoesNotTakeTheProcessorForAGPU(t *testing.T) {
	closed := 0
	processor := func(int) (*opened, error) {
		dev := mock.NewDevice()
		return device(dev, probe.About{}, events.Identity{Kind: events.KindCPU, Name: "Xeon"}, func() error { closed++; return nil }), nil
	}
	c := func(chosen string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		code := command{
			backends: []backend{{name: "cuda", auto: true, open: refusing(missing)}, {name: "opencl", auto: true, open: processor}},
			stdout:   &stdout, stderr: &stderr, settings: probe.Settings{DriftSpan: 20 * time.Millisecond},
		}.run(t.Context(), []string{"-backend", chosen})
		return code, stdout.String(), stderr.String()
	}
	code, stdout, stderr := c("auto")
	require.Equal(t, exitUnavailable, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "opencl unavailable (no-device): device 0 is the host's own processors (Xeon); probe them with -backend opencl")
	require.Equal(t, 1, closed)
	_, stdout, _ = c("opencl")
	require.Contains(t, stdout, "mock device 0 (cpu): Xeon")
}

func TestAutoSaysWhatItPassedOver(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := command{
		backends: []backend{{name: "cuda", auto: true, open: refusing(missing)}, {name: "hip", auto: true, open: simulated(t)}},
		stdout:   &stdout, stderr: &stderr, settings: probe.Settings{DriftSpan: 20 * time.Millisecond},
	}.run(t.Context(), nil)
	require.Equal(t, exitPassed, code, stdout.String())
	require.Regexp(t, `^passed over: cuda unavailable \(library-missing\): .*\nmock device 0 `, stdout.String())
}

// "No GPU" has many causes, and machines need to tell them apart:
// NVIDIA/warp#219, numba/numba#9732, ollama/ollama#3417.
func TestDocumentCarriesTheWholeCause(t *testing.T) {
	u := &events.UnavailableError{
		Backend: "cuda", Cause: events.CauseStubDriver, Detail: "a stub answers", Advice: "take it off the path",
		Path: "/opt/lib/libcudart.so.12", Version: 12040, Code: 34, CodeName: "cudaErrorStubLibrary",
		Candidates: []events.Candidate{{Path: "/opt/stubs/libcuda.so", Reason: "a stub"}}, Near: []string{"/opt/libcudart.so.14"},
	}
	doc := evprobe(t.Context(), refusing(u), simulated(t), "-json").document(t)
	require.Equal(t, []document.Refusal{{
		Backend: "cuda", Cause: events.CauseStubDriver, Detail: "a stub answers", Advice: "take it off the path",
		Path: "/opt/lib/libcudart.so.12", Version: 12040, Code: 34, CodeName: "cudaErrorStubLibrary",
		Candidates: []events.Candidate{{Path: "/opt/stubs/libcuda.so", Reason: "a stub"}}, Near: []string{"/opt/libcudart.so.14"}, Hint: hint.For("cuda", 34),
	}}, doc.Unavailable)
	require.Nil(t, doc.Device)

	refusal := &events.DriverError{Backend: "cuda", Op: "cudaGetDeviceCount", Code: 3, Name: "cudaErrorInitializationError"}
	doc = evprobe(t.Context(), refusing(refusal), nil, "-backend", "cuda", "-json").document(t)
	require.Equal(t, int32(3), doc.Unavailable[0].Code)
	require.Equal(t, "cudaErrorInitializationError", doc.Unavailable[0].CodeName)
	require.Equal(t, events.CauseDriverError, doc.Unavailable[0].Cause)
}

// One GPU in good health says nothing about the one that was asked for.
func TestDeviceThatWasAskedForIsTheOneProbed(t *testing.T) {
	t.Parallel()
	two := func(ordinal int) (*opened, error) {
		sys := mock.New(mock.Devices(2))
		sys.Device(1).Script(mock.Fault{Op: mock.OpEventRecord, Code: mock.CodeUnknown})
		dev := sys.Device(ordinal)
		return device(dev, probe.About{Device: ordinal, DeviceCount: 2}, dev.Identity(), func() error { return nil }), nil
	}
	good := evprobe(t.Context(), two, nil, "-json")
	require.Equal(t, exitPassed, good.code)
	require.Equal(t, 0, good.document(t).Device.Ordinal)
	bad := evprobe(t.Context(), two, nil, "-json", "-device", "1")
	require.Equal(t, exitFailed, bad.code)
	require.Equal(t, 1, bad.document(t).Device.Ordinal)
}

func TestTextIsOneLineForEachCheckAndTheMeaningOfFailures(t *testing.T) {
	t.Parallel()
	got := evprobe(t.Context(), simulated(t, mock.Fault{Op: mock.OpStreamWaitEvent, Nth: 1, Code: mock.CodeUnknown}), nil)
	require.Equal(t, exitFailed, got.code)
	require.Empty(t, got.stderr)
	lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
	require.Equal(t, "cuda device 0 (simulated): Simulated device, PCI 0000:01:00.0", strings.Replace(lines[0], "mock", "cuda", 1))
	for i, name := range probe.Names() {
		require.Regexp(t, `^(PASS|FAIL|SKIP)  `+name+` +\S`, lines[1+i])
	}
	require.Regexp(t, `^FAIL  stream-order  .*mockStreamWaitEvent: mockErrorUnknown \(999\)`, lines[11])
	require.Contains(t, got.stdout, "1 failed, 1 skipped: do not rely")
	require.Equal(t, "  stream-order: expected that a stream that waits for another stream's event goes on after it, never before;"+
		" without it work on one stream can overtake the work on another that it depends on", lines[len(lines)-1])
}

func TestVerboseLogsAndQuietDoesNot(t *testing.T) {
	quiet := evprobe(t.Context(), canned(nil, pass), nil, "-json")
	require.Equal(t, exitPassed, quiet.code)
	require.Empty(t, quiet.stderr)
	verbose := evprobe(t.Context(), canned(nil, pass), nil, "-json", "-v")
	require.Equal(t, exitPassed, verbose.code)
	require.Contains(t, verbose.stderr, `"check": "order"`)
	require.Equal(t, "passed", verbose.document(t).Outcome)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestResultThatCannotBeWrittenIsNotSuccess(t *testing.T) {
	for _, args := range [][]string{{"-json"}, nil, {"-version"}} {
		var stderr bytes.Buffer
		c := command{backends: []backend{{name: "cuda", auto: true, open: canned(nil, pass)}}, stdout: full{}, stderr: &stderr, settings: quick}
		require.Equal(t, exitFailed, c.run(t.Context(), args), args)
		require.Contains(t, stderr.String(), "no space left on device")
	}
}

// program is evprobe in a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Skip("this platform cannot run programs: ", err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func TestClosedPipeIsNotSuccess(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	cmd := program(t, "-backend", "mock", "-version")
	cmd.Stdout = w
	err = cmd.Run()
	require.NoError(t, w.Close())
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "it said that all is well")
}

// timeout and container runtimes send SIGTERM, people an interrupt.
func TestInterruptEndsWith130AndADocument(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted from outside on windows")
	}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) { interrupted(t, signal) })
	}
}

func interrupted(t *testing.T, signal os.Signal) {
	t.Parallel()
	var stdout bytes.Buffer
	cmd := program(t, "-backend", "mock", "-json", "-v")
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stderr.Read(make([]byte, 1)) // it logs, so it is on its way
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(signal))
	_, err = io.Copy(io.Discard, stderr)
	require.NoError(t, err)
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, exitInterrupted, exit.ExitCode())
	doc := output{stdout: stdout.String()}.document(t)
	require.Equal(t, "interrupted", doc.Outcome)
	require.Len(t, doc.Checks, len(probe.Names()))
}

// noDevice runs evprobe with the ways to a device that it is built with, and expects
// that there is none.
func noDevice(t *testing.T, args ...string) document.Document {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append(args, "-json"), &stdout, &stderr)
	require.Equal(t, exitUnavailable, code, stderr.String())
	return output{stdout: stdout.String()}.document(t)
}

// The real ways, on any machine: overrides that name nothing.
func TestLibraryThatIsNotThereEndsWith3(t *testing.T) {
	t.Setenv("DEVEVENTS_CUDART", "/nonexistent/libcudart.so.13")
	t.Setenv("DEVEVENTS_HIP", "/nonexistent/libamdhip64.so.7")
	t.Setenv("DEVEVENTS_OPENCL", "/nonexistent/libOpenCL.so.1")
	all := []string{"cuda", "hip", "opencl"}
	for _, backend := range all {
		doc := noDevice(t, "-backend", backend)
		require.Len(t, doc.Unavailable, 1)
		require.Equal(t, backend, doc.Unavailable[0].Backend)
		require.Contains(t, []events.Cause{events.CauseBadOverride, events.CauseNotThisPlatform}, doc.Unavailable[0].Cause)
		require.NotEmpty(t, doc.Unavailable[0].Detail)
	}
	var tried []string
	for _, u := range noDevice(t).Unavailable {
		tried = append(tried, u.Backend)
	}
	require.Equal(t, all, tried, "auto tries all")
}

// A driver that is not CUDA's twin, on whatever machine has one: PoCL in CI.
func TestOpenCLDriverPassesItsChecks(t *testing.T) {
	gputest.OpenCL(t)
	var stdout, stderr bytes.Buffer
	code := -1
	for try := 0; try < 3 && code != exitPassed; try++ { // the device may be this machine's processors, which others hold up
		stdout.Reset()
		code = run(t.Context(), []string{"-backend", "opencl", "-json"}, &stdout, &stderr)
	}
	require.Equal(t, exitPassed, code, stdout.String())
	doc := output{stdout: stdout.String()}.document(t)
	require.Equal(t, "opencl", doc.Backend)
	require.Equal(t, "icd", doc.Library.API)
	require.Contains(t, doc.Library.RuntimeVersionText, "OpenCL ")
	require.NotEmpty(t, doc.Library.DriverVersionText)
	require.NotEmpty(t, doc.Device.Name)
	for _, r := range doc.Checks {
		if r.Name == "capture" {
			require.Equal(t, probe.Skip, r.Verdict)
			require.Contains(t, r.Reason, "no Graphs")
		}
	}
}

// A failure to load that names one of many candidates is no help:
// numba/numba#9732, CauldronDevelopmentLLC/cbang#181.
func TestMissingHIPListsWhatWasTried(t *testing.T) {
	if _, err := hip.Open(); err == nil || causeOf(err) != events.CauseLibraryMissing {
		t.Skipf("this machine, or its platform, is not one that only lacks a HIP library: %v", err)
	}
	u := noDevice(t, "-backend", "hip").Unavailable[0]
	require.Equal(t, events.CauseLibraryMissing, u.Cause)
	require.NotEmpty(t, u.Candidates)
	for _, c := range u.Candidates {
		require.NotEmpty(t, c.Path)
		require.NotEmpty(t, c.Reason, c.Path)
	}
}

func causeOf(err error) events.Cause { return explain("hip", err).Cause }

// AMD's own library on a machine without an AMD device. Whoever runs this names
// the library and makes the loader find it; .ci/run amd does.
// celeritas-project/celeritas#2226, ollama/ollama#3417
func TestRealAMDLibraryWithoutADeviceEndsWith3(t *testing.T) {
	unfit := t.Skip
	if os.Getenv("DEVEVENTS_REQUIRE_AMDHIP") == "1" {
		unfit = t.Fatal
	}
	path := os.Getenv("DEVEVENTS_TEST_AMDHIP")
	if path == "" {
		unfit("needs AMD's HIP library, named by DEVEVENTS_TEST_AMDHIP: run .ci/run amd")
	}
	if _, err := os.Stat("/dev/kfd"); err == nil {
		unfit("this machine has an AMD device, and the test is about having none")
	}
	library, err := filepath.EvalSymlinks(path)
	require.NoError(t, err)
	doc := noDevice(t, "-backend", "hip")
	require.Contains(t, doc.Summary, "hip unavailable (no-device)")
	require.Len(t, doc.Unavailable, 1)
	u := doc.Unavailable[0]
	require.Equal(t, events.CauseNoDevice, u.Cause)
	require.Equal(t, library, u.Path)
	require.Positive(t, u.Version)
	require.Equal(t, int32(100), u.Code)
	require.Equal(t, "hipErrorNoDevice", u.CodeName)
}

// loaded is a device of a library, of which only the description is needed.
var loaded = hip.Info{
	Backend: "hip", API: "runtime", Library: "/opt/lib/libamdhip64.so.7", RuntimeVersion: 70051831, RuntimeVersionText: "7.0.51831",
	DriverVersion: 70051831, DriverVersionText: "7.0.51831", Devices: []events.Identity{{Name: "x", UUID: "y"}},
}

func openLoaded(ordinal int) (*opened, error) {
	return deviceOf[mock.Event, mock.Stream](oneDevice{closing{mock.NewDevice()}}, loaded, ordinal)
}

// What a loaded library says of itself reaches the document as it is, whichever
// vendor's it is.
func TestLibraryIsDescribedInTheDocument(t *testing.T) {
	t.Parallel()
	doc := evprobe(t.Context(), openLoaded, nil, "-json").document(t)
	require.Equal(t, &document.Library{
		API: "runtime", Path: "/opt/lib/libamdhip64.so.7", RuntimeVersion: 70051831, RuntimeVersionText: "7.0.51831",
		DriverVersion: 70051831, DriverVersionText: "7.0.51831",
	}, doc.Library)
	require.Equal(t, &document.Device{Name: "x", UUID: "y"}, doc.Device)

	none := evprobe(t.Context(), openLoaded, nil, "-json", "-device", "1").document(t).Unavailable[0]
	require.Equal(t, "hip", none.Backend)
	require.Equal(t, "/opt/lib/libamdhip64.so.7", none.Path)
	require.Equal(t, 70051831, none.Version)
}

type closing struct{ *mock.Device }

func (closing) Close() error { return nil }

type oneDevice struct{ dev closing }

func (r oneDevice) Device(int) (closing, error) { return r.dev, nil }

func TestMockHasOneDevice(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitUnavailable, run(t.Context(), []string{"-backend", "mock", "-device", "1"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "device 1 was asked for and there are 1")
	require.NotContains(t, stderr.String(), "-backend mock probes")
}

func TestMockPassesThroughTheRealProgram(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	cmd := program(t, "-backend", "mock", "-json")
	cmd.Stdout = &stdout
	require.NoError(t, cmd.Run())
	doc := output{stdout: stdout.String()}.document(t)
	require.Equal(t, "mock", doc.Backend)
	require.Equal(t, "passed", doc.Outcome)
	for _, r := range doc.Checks {
		if r.Name == "drift" {
			require.InDelta(t, mockDrift, r.Numbers["drift_ppm"], 0.1+r.Numbers["drift_bound_ppm"].(float64))
		}
	}
}

func TestGPUPassesEveryCheck(t *testing.T) {
	gputest.Runtime(t)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"-backend", "cuda", "-json"}, &stdout, &stderr)
	require.Equal(t, exitPassed, code, "%s%s", stderr.String(), stdout.String())
	for _, r := range (output{stdout: stdout.String()}).document(t).Checks {
		want := probe.Pass
		if r.Name == "device-timer" {
			want = probe.Skip // no call of CUDA reads the clock of the stamps
		}
		require.Equal(t, want, r.Verdict, "%s: %s", r.Name, r.Reason)
	}
}

// A reader that has gone takes no answer, and that is no success: wilicc/gpu-burn#6.
func TestClosedPipeIsNotSuccessForAnySubcommand(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "order", "-backend", "mock"}, {"check", "order", "-backend", "mock", "-json"}, {"list"}, {"bench", "-backend", "mock", "-max", "4KiB"}} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		cmd := program(t, args...)
		cmd.Stdout = w
		err = cmd.Run()
		require.NoError(t, w.Close())
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%v said that all is well", args)
	}
}
