package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
)

// A library that crashes takes its process with it, which must neither look like success
// nor leave the caller without a document: pytorch/test-infra#3967.
func TestCrashOfADriverIsReportedWithItsSignal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		deed, signal, during, step string
		order                      probe.Verdict
	}{
		{"segv@open", "SIGSEGV", "open", "opening backend cuda", probe.Skip},
		{"abort@open", "SIGABRT", "open", "opening backend cuda", probe.Skip},
		{"segv@20", "SIGSEGV", "order", "recording 1000 events", probe.Fail},
		{"abort@20", "SIGABRT", "order", "recording 1000 events", probe.Fail},
		{"kill@20", "SIGKILL", "order", "recording 1000 events", probe.Fail},
		{"exit@20", "", "order", "recording 1000 events", probe.Fail}, // with 0, as if all were well
	} {
		t.Run(c.deed, func(t *testing.T) {
			t.Parallel()
			got := finish(t, onFake(t, []string{"EVPROBE_FAKE_DEED=" + c.deed}, "check", "order", "tick", "-backend", "cuda", "-json"))
			require.Equal(t, exitFailed, got.code, got.stderr)
			doc := got.document(t)
			require.Empty(t, validate(t, got.stdout))
			require.Equal(t, document.Crashed, doc.Outcome)
			require.Equal(t, c.signal, doc.Crash.Signal)
			require.Equal(t, c.during, doc.Crash.During)
			require.Equal(t, c.step, doc.Crash.Step)
			require.Equal(t, "evprobe: "+doc.Summary+"\n", got.stderr)
			require.Contains(t, doc.Summary, c.step)
			require.Len(t, doc.Checks, 2)
			require.Equal(t, c.order, doc.Checks[0].Verdict)
			require.Equal(t, probe.Skip, doc.Checks[1].Verdict)
			require.NotEmpty(t, doc.Checks[1].Expectation)
			if c.signal == "" {
				require.Zero(t, doc.Crash.ExitCode)
				require.Contains(t, doc.Summary, "ended by itself with exit code 0")
			} else {
				require.Contains(t, doc.Summary, c.signal)
			}
		})
	}
}

// A driver that never answers ends the run within the stated limit, with the step named,
// also where it stops every thread of its process: wilicc/gpu-burn#6.
func TestHangOfADriverEndsWith5AndNamesTheStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ deed, limit, check, step, said string }{
		{"hang@open", "-step-timeout=300ms", "open", "opening backend cuda", "one step took longer than 300ms"},
		{"hang@open", "-timeout=300ms", "open", "opening backend cuda", "timed out after 300ms"},
		{"hang@20", "-step-timeout=300ms", "order", "recording 1000 events", "one step took longer than 300ms"},
		{"hang@20", "-timeout=300ms", "order", "recording 1000 events", "timed out after 300ms"},
		{"stop@open", "-step-timeout=300ms", "open", "opening backend cuda", "one step took longer than 300ms"},
		{"stop@20", "-timeout=300ms", "order", "recording 1000 events", "timed out after 300ms"},
	} {
		t.Run(c.deed+c.limit, func(t *testing.T) {
			t.Parallel()
			got := finish(t, onFake(t, []string{"EVPROBE_FAKE_DEED=" + c.deed}, "check", "order", "-backend", "cuda", "-json", c.limit))
			require.Equal(t, exitTimedOut, got.code, got.stderr)
			doc := got.document(t)
			require.Empty(t, validate(t, got.stdout))
			require.Equal(t, document.TimedOut, doc.Outcome)
			require.True(t, doc.Unfinished.Hung)
			require.Equal(t, c.check, doc.Unfinished.Check)
			require.Equal(t, c.step, doc.Unfinished.Step)
			require.Contains(t, doc.Summary, c.said)
			require.Contains(t, got.stderr, c.step)
			require.Less(t, doc.DurationMS, 60_000.0, "it hung with the driver")
		})
	}
}

func TestWhatADriverPrintsIsNoPartOfTheDocument(t *testing.T) {
	t.Parallel()
	orders := []string{"EVPROBE_FAKE_DEED=print@20"}
	got := finish(t, onFake(t, orders, "check", "order", "-backend", "cuda", "-json"))
	require.Equal(t, exitPassed, got.code, got.stdout+got.stderr)
	require.Empty(t, got.stderr)
	got.document(t)
	loud := finish(t, onFake(t, orders, "check", "order", "-backend", "cuda", "-json", "-v"))
	require.Equal(t, exitPassed, loud.code)
	require.Regexp(t, `(?s)a driver's\n.*own words`, loud.stderr, "lines of the log may come between")
}

// An interrupt ends a run at once, also one that a driver holds.
func TestInterruptEndsARunThatHangs(t *testing.T) {
	t.Parallel()
	cmd := onFake(t, []string{"EVPROBE_FAKE_DEED=hang@20"}, "check", "order", "-backend", "cuda", "-json", "-v", "-timeout", "10m", "-step-timeout", "10m")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stderr.Read(make([]byte, 1))
	require.NoError(t, err)
	time.Sleep(200 * time.Millisecond) // by now it hangs, mostly; if not, the answer is the same
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, stderr)
	_ = cmd.Wait()
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
	doc := output{stdout: stdout.String()}.document(t)
	require.Equal(t, document.Interrupted, doc.Outcome)
	require.Contains(t, doc.Summary, "interrupted in ")
}

// children are the processes that pid has started and that live.
func children(t *testing.T, pid int) (live []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has gone meanwhile
		}
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			live = append(live, child)
		}
	}
	return live
}

// A worker whose driver hangs must not stay behind when the program above it is killed.
func TestWorkerEndsWithTheProgramThatStartedIt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked at in /proc")
	}
	cmd := onFake(t, []string{"EVPROBE_FAKE_DEED=hang@20"}, "check", "order", "-backend", "cuda", "-json", "-timeout", "10m", "-step-timeout", "10m")
	require.NoError(t, cmd.Start())
	var workers []int
	require.Eventually(t, func() bool { workers = children(t, cmd.Process.Pid); return len(workers) == 1 }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(workers[0]) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ")
	}, 30*time.Second, 10*time.Millisecond, "the worker lives on")
}

// Where no other process can be started the work is done in this one.
func TestWithoutAWorkerTheWorkIsDoneHere(t *testing.T) {
	t.Parallel()
	for name, worker := range map[string]func() (string, error){
		"no path":    func() (string, error) { return "", os.ErrNotExist },
		"no program": func() (string, error) { return filepath.Join(t.TempDir(), "none"), nil },
	} {
		var stdout, stderr bytes.Buffer
		c := command{backends: backends(), stdout: &stdout, stderr: &stderr, settings: quick, worker: worker}
		require.Equal(t, exitPassed, c.run(t.Context(), []string{"check", "order", "-backend", "mock"}), name)
		require.Contains(t, stdout.String(), "PASS  order")
	}
}

func TestNoiseBetweenMessagesIsToldFromThem(t *testing.T) {
	var wire, noise bytes.Buffer
	s := &sender{w: &wire}
	wire.WriteString("chatter without an end")
	s.send(message{Step: &step{In: "order", Doing: "a"}})
	wire.WriteString("a line\n\x1enot a message\n")
	s.send(message{Ended: true})
	wire.WriteString("the end")
	var got []message
	receive(&wire, func(m message) { got = append(got, m) }, &noise)
	require.Len(t, got, 2)
	require.Equal(t, "a", got[0].Step.Doing)
	require.True(t, got[1].Ended)
	require.Equal(t, "chatter without an enda line\n\x1enot a message\nthe end", noise.String())
}

func TestOutputOfAWorkerIsBounded(t *testing.T) {
	var all bytes.Buffer
	f := &firstPart{most: 10, also: &all}
	for range 3 {
		n, err := f.Write([]byte("abcd\xff"))
		require.NoError(t, err)
		require.Equal(t, 5, n)
	}
	require.Equal(t, "abcd?abcd?", f.String())
	require.Equal(t, 15, all.Len())
	f.mute()
	_, _ = f.Write([]byte("more"))
	require.Equal(t, 15, all.Len())
}

// Interrupts of a terminal reach both processes, and the one above answers.
func TestInterruptOfTheWholeGroupIsAnsweredWith130(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs process groups")
	}
	cmd := onFake(t, []string{"EVPROBE_FAKE_DEED=hang@20"}, "check", "order", "-backend", "cuda", "-json", "-v", "-timeout", "10m", "-step-timeout", "10m")
	inOwnGroup(cmd)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stderr.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, signalGroup(cmd.Process.Pid, syscall.SIGINT))
	_, _ = io.Copy(io.Discard, stderr)
	_ = cmd.Wait()
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
}
