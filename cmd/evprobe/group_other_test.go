//go:build !unix

package main

import (
	"errors"
	"os/exec"
	"syscall"
)

func inOwnGroup(*exec.Cmd) {}

func signalGroup(int, syscall.Signal) error { return errors.ErrUnsupported }
