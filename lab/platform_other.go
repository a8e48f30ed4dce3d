//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package lab

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// The signals that a member would be sent; checkPlatform keeps members from
// existing.
const (
	signalStop      = syscall.Signal(0)
	signalContinue  = syscall.Signal(0)
	signalTerminate = syscall.SIGTERM
)

var errPlatform = errors.New("lab: clusters need signals and file locks of Linux, macOS or a BSD, not available on " + runtime.GOOS)

func checkPlatform() error { return errPlatform }

func flock(*os.File) error { return errPlatform }

func isOurs(os.FileInfo) bool { return false }

func memberAttributes() *syscall.SysProcAttr { return nil }

func awaitStop(int) error { return errPlatform }
