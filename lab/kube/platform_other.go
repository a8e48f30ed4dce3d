//go:build !unix

package kube

import (
	"errors"
	"runtime"
	"syscall"
)

// The signals that a process would be sent; lab.Start keeps them from existing.
const (
	signalStop     = syscall.Signal(0)
	signalContinue = syscall.Signal(0)
)

func childAttributes() *syscall.SysProcAttr { return nil }

func awaitStop(int) error { return errors.New("kube: no signals on " + runtime.GOOS) }
