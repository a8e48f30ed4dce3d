package keepalive_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/keepalive"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of Linux's tcp.h, which package syscall lacks.
const tcpUserTimeout = 18

// TestTimeoutIsTheKernelsToo pins that grpc-go sets TCP_USER_TIMEOUT to Timeout when the
// client may ping, and leaves it alone otherwise.
func TestTimeoutIsTheKernelsToo(t *testing.T) {
	for name, tc := range map[string]struct {
		pair keepalive.Pair
		want time.Duration
	}{
		"datacenter": {pair: keepalive.Datacenter().Pair(), want: 5 * time.Second},
		"default":    {pair: keepalive.Pair{Client: keepalive.Client{Time: time.Hour}}, want: 20 * time.Second},
		"no pings":   {pair: keepalive.Pair{}},
	} {
		t.Run(name, func(t *testing.T) {
			address := grpctest.Serve(t, func(s grpc.ServiceRegistrar) { testgrpc.RegisterTestServiceServer(s, service{}) }).String()
			dial, _ := options(t, tc.pair)
			conns := make(chan *net.TCPConn, 1)
			conn, err := grpc.NewClient("passthrough:///"+address, append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
				if err == nil {
					conns <- c.(*net.TCPConn)
				}
				return c, err
			}))...)
			require.NoError(t, err)
			defer conn.Close()
			connect(t, conn)
			assert.Equal(t, tc.want, userTimeout(t, <-conns))
		})
	}
}

func userTimeout(t *testing.T, c *net.TCPConn) time.Duration {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	var ms int
	var optErr error
	require.NoError(t, raw.Control(func(fd uintptr) {
		ms, optErr = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
	}))
	require.NoError(t, optErr)
	return time.Duration(ms) * time.Millisecond
}
