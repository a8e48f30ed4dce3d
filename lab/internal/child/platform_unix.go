//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package child

import "syscall"

// The signals that freeze a process and wake it.
const (
	signalStop     = syscall.SIGSTOP
	signalContinue = syscall.SIGCONT
)
