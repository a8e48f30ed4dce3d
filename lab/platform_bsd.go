//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package lab

import "syscall"

// memberAttributes gives a member a process group of its own, so that Ctrl-C
// reaches this program alone.
func memberAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitStop trusts the signal: there is no cheap way to see a process stand still.
func awaitStop(int) error { return nil }
