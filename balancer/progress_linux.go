package balancer

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

func progressOf(conn net.Conn) (p progress) {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return progress{}
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return progress{}
	}
	_ = raw.Control(func(fd uintptr) { // that it is closed already is all that can be wrong
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			p = progress{received: info.Bytes_received, acked: info.Bytes_acked, unsent: info.Notsent_bytes}
		}
	})
	return p
}
