//go:build !linux

package front_test

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
