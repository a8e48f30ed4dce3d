//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package lab

import (
	"errors"
	"os"
	"runtime"
)

var errPlatform = errors.New("lab: clusters need signals and file locks of Linux, macOS or a BSD, not available on " + runtime.GOOS)

func checkPlatform() error { return errPlatform }

func flock(*os.File) error { return errPlatform }

func isOurs(os.FileInfo) bool { return false }
