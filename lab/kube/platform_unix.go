//go:build unix && !linux

package kube

import "syscall"

const (
	signalStop     = syscall.SIGSTOP
	signalContinue = syscall.SIGCONT
)

// childAttributes gives the process a group of its own, so that Ctrl-C reaches this
// program alone.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitStop has no portable way to see that a process stands still.
func awaitStop(int) error { return nil }
