//go:build !linux

package channel

import "syscall"

// setUserTimeout does nothing where the kernel has no TCP_USER_TIMEOUT; kernel
// keepalive and gRPC's remain.
func setUserTimeout(string, string, syscall.RawConn) error { return nil }
