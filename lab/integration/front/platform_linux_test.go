package front_test

import "syscall"

// attributes give nginx a process group of its own, and make it end with this program.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
