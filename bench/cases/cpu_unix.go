//go:build unix

package cases

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time, user and system, that this process has taken.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
