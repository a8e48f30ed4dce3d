//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import "syscall"

// attributes gives a process a group of its own, so that Ctrl-C reaches this program
// alone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitStop relies on the signal: there is no cheap way to see that a process is stopped.
func awaitStop(int) error { return nil }
