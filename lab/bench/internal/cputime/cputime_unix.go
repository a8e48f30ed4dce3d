//go:build unix

// Package cputime measures the CPU time of the running process.
package cputime

import (
	"syscall"
	"time"
)

// Used returns the CPU time, user and system, that this process has used.
func Used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
