package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// asWorker makes the program do the work for another one of its kind: it writes
// messages to stdout, and ends when its stdin does.
const asWorker = "EVPROBE_WORKER"

// ownProgram is the program that is running.
func ownProgram() (string, error) { return os.Executable() }

// runWorker is main in a worker.
func runWorker(args []string) {
	// An interrupt of a terminal goes to both processes. The other one decides, and
	// ends this one; should it die, so does its end of stdin.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(exitInterrupted)
	}()
	o, err := parse(args, backends())
	if err != nil {
		os.Exit(exitUsage) // the other process has parsed the same
	}
	out := &sender{w: os.Stdout}
	doing := func(check, doing string) { out.send(message{Step: &step{In: check, Doing: doing}}) }
	work{options: o, backends: backends(), tell: out.send, doing: doing}.run(context.Background())
	os.Exit(0)
}

// slack is how much longer than its own limits a worker is waited for. One that
// works ends itself in time.
const slack = 2 * time.Second

// isolated has the work done by another process. It says false if there can be none.
// On return that process is over, or was told to be.
func (c command) isolated(args []string, r *recorder) bool {
	if c.worker == nil {
		return false
	}
	path, err := c.worker()
	if err != nil {
		r.log.Info("working in this process: where this program lies is not known", zap.Error(err))
		return false
	}
	said := &firstPart{most: maxOutput, also: r.noise}
	defer said.mute()
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), asWorker+"=1")
	cmd.Stderr = said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return false
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false
	}
	if err := cmd.Start(); err != nil {
		r.log.Info("working in this process: no other could be started", zap.Error(err))
		return false
	}
	messages := make(chan message, 64)
	quit := make(chan struct{})
	defer close(quit)
	go func() {
		defer close(messages)
		receive(stdout, func(m message) {
			select {
			case messages <- m:
			case <-quit:
			}
		}, said)
	}()
	if !r.follow(messages) {
		// The process may be stuck in the kernel, where nothing ends it. Nobody waits.
		_ = cmd.Process.Kill()
		go func() { _ = cmd.Wait() }()
		return true
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait() // how it ended is in its state
	}()
	select {
	case <-over:
		if !r.ended {
			r.died(cmd.ProcessState, said.String())
		}
	case <-r.ctx.Done():
		_ = cmd.Process.Kill()
		r.cutOff(false)
	case <-time.After(slack):
		_ = cmd.Process.Kill()
		if !r.ended {
			r.cutOff(true)
		}
	}
	return true
}

// follow takes messages until there are no more, which it answers with true, or until
// the program is interrupted or there is no sign of life.
func (r *recorder) follow(messages <-chan message) bool {
	atMost := time.NewTimer(r.timeout + slack)
	defer atMost.Stop()
	silent := time.NewTimer(r.stepLimit + slack)
	defer silent.Stop()
	for {
		select {
		case m, more := <-messages:
			if !more {
				return true
			}
			silent.Reset(r.stepLimit + slack)
			r.take(m)
			continue
		case <-r.ctx.Done():
			r.cutOff(false)
		case <-atMost.C:
			r.cutOff(true)
		case <-silent.C:
			r.cutOff(true)
			r.doc.Unfinished.StepLimit = true
		}
		return false
	}
}
