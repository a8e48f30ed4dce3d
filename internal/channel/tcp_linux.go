package channel

import (
	"cmp"
	"strings"
	"syscall"
)

// Options of linux/tcp.h; package syscall lacks them.
const (
	tcpUserTimeout = 18
	tcpRTOMax      = 44 // since Linux 6.15
)

func setTCPOptions(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	ctlErr := conn.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(userTimeout.Milliseconds()))
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpRTOMax, int(maxRetransmission.Milliseconds())) // older kernels lack it
	})
	return cmp.Or(ctlErr, err)
}
