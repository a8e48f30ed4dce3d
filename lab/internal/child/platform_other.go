//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package child

import (
	"errors"
	"runtime"
	"syscall"
)

// The signals that freeze a process and wake it do not exist here.
const (
	signalStop     = syscall.Signal(0)
	signalContinue = syscall.Signal(0)
)

func attributes() *syscall.SysProcAttr { return nil }

func awaitStop(int) error { return errors.New("processes cannot be frozen on " + runtime.GOOS) }
