//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package lab

import (
	"errors"
	"os"
	"syscall"
)

// checkPlatform returns an error where clusters cannot run.
func checkPlatform() error { return nil }

// flock takes an exclusive lock, or returns errLocked.
func flock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// isOurs reports whether a file belongs to the user that runs this process.
func isOurs(info os.FileInfo) bool {
	status, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(status.Uid) == os.Geteuid()
}
