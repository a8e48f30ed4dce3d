package balancer

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

func backlogOf(conn net.Conn) (b backlog) {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return backlog{}
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return backlog{}
	}
	_ = raw.Control(func(fd uintptr) { // it fails if the connection is closed already
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			b = backlog{acked: info.Bytes_acked, unsent: info.Notsent_bytes, repeated: info.Retransmits > 0}
		}
	})
	return b
}
