//go:build !linux

package channel

import "syscall"

// setTCPOptions does nothing where the kernel has no TCP_USER_TIMEOUT; kernel
// keepalive and gRPC's remain.
func setTCPOptions(string, string, syscall.RawConn) error { return nil }
