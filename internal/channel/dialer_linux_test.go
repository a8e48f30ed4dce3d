package channel

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKernelKeepAliveIsOn(t *testing.T) {
	lis := must(net.Listen("tcp", "127.0.0.1:0"))
	defer lis.Close()
	conn := must(systemDialer.dial(t.Context(), lis.Addr().String()))
	defer conn.Close()
	raw := must(conn.(*net.TCPConn).SyscallConn())
	read := func(level, name int) (v int, err error) {
		require.NoError(t, raw.Control(func(fd uintptr) { v, err = syscall.GetsockoptInt(int(fd), level, name) }))
		return v, err
	}
	option := func(level, name int) int {
		v := must(read(level, name))
		return v
	}
	assert.Equal(t, 1, option(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE))
	assert.Equal(t, int(keepAliveIdle.Seconds()), option(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE))
	assert.Equal(t, int(keepAliveInterval.Seconds()), option(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL))
	assert.Equal(t, keepAliveCount, option(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT))
	assert.Equal(t, int(userTimeout.Milliseconds()), option(syscall.IPPROTO_TCP, tcpUserTimeout))
	if retransmission, err := read(syscall.IPPROTO_TCP, tcpRTOMax); err == nil { // Linux 6.15
		assert.Equal(t, int(maxRetransmission.Milliseconds()), retransmission)
	}
}
