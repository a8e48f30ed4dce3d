package grpcpool

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpctest"
)

// observed returns an observed connection and its other end.
func observed(t *testing.T, creds credentials.TransportCredentials) (conn, server net.Conn) {
	t.Helper()
	raw, server := net.Pipe()
	conn, _, err := creds.ClientHandshake(t.Context(), "", raw)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = conn.Close(), server.Close() })
	return conn, server
}

// receive sends from the server and reads on the client.
func receive(t *testing.T, conn, server net.Conn, bytes []byte) {
	t.Helper()
	go func() { _, _ = server.Write(bytes) }()
	for left := len(bytes); left > 0; {
		n, err := conn.Read(make([]byte, 7))
		require.NoError(t, err)
		left -= n
	}
}

func TestLimitsAreAddedUp(t *testing.T) {
	var limitsSeen []int
	left := 0
	limits := newStreamLimits(func(limit int) { limitsSeen = append(limitsSeen, limit) }, func() { left++ })
	creds := observing{insecure.NewCredentials(), limits}
	_, known := limits.total()
	assert.False(t, known)

	first, firstServer := observed(t, creds)
	_, known = limits.total()
	assert.False(t, known, "nothing was said")
	receive(t, first, firstServer, settings(limit(10)))
	second, secondServer := observed(t, creds.Clone())
	receive(t, second, secondServer, settings(limit(5)))
	total, known := limits.total()
	assert.Equal(t, 15, total)
	assert.True(t, known)

	receive(t, first, firstServer, slices.Concat(frame(0x6, 0, make([]byte, 8)...), settings(limit(20))))
	total, _ = limits.total()
	assert.Equal(t, 25, total, "a limit was changed")
	assert.Equal(t, []int{10, 5, 20}, limitsSeen)

	goAway := frame(0x7, 0, make([]byte, 8)...)
	receive(t, first, firstServer, goAway)
	total, _ = limits.total()
	assert.Equal(t, 25, total, "its streams cannot be distinguished from those of the other")
	require.NoError(t, first.Close())
	total, _ = limits.total()
	assert.Equal(t, 5, total)

	third, thirdServer := observed(t, creds)
	receive(t, third, thirdServer, settings(limit(1)))
	require.NoError(t, third.Close())
	assert.Zero(t, left, "there is another one")
	receive(t, second, secondServer, slices.Concat(goAway, goAway, settings(limit(50))))
	_, known = limits.total()
	assert.False(t, known, "its limit does not count")
	assert.Equal(t, 1, left)
	require.NoError(t, secondServer.Close())
	_, err := second.Read(make([]byte, 1))
	assert.Equal(t, 1, left, "only once")
	require.Error(t, err)
	_, known = limits.total()
	assert.False(t, known, "a lost connection counts like a closed one")

	limits.set(first.(*observedConn), 7)
	_, known = limits.total()
	assert.False(t, known, "late frames are ignored")
	assert.Len(t, limitsSeen, 4)
}

// unexpected are credentials that refuse, and report that they are from xDS.
type unexpected struct {
	credentials.TransportCredentials
	err error
}

func (s unexpected) UsesXDS() bool { return true }

func (s unexpected) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, s.err
}

func TestObservedCredentialsStayWhatTheyAre(t *testing.T) {
	refused := errors.New("refused")
	creds := observing{unexpected{insecure.NewCredentials(), refused}, newStreamLimits(func(int) {}, func() {})}
	_, _, err := creds.ClientHandshake(t.Context(), "", nil)
	assert.Equal(t, refused, err)
	assert.True(t, creds.UsesXDS())
	assert.False(t, observing{insecure.NewCredentials(), nil}.UsesXDS())
	assert.Equal(t, "insecure", creds.Info().SecurityProtocol)
}

// gRPC refuses the second channel although it accepted the first.
func TestNoConnectionAtAll(t *testing.T) {
	g := newGroup(Bulk, Config{}.withDefaults(), func(*streamLimits) (*grpc.ClientConn, error) { return nil, errors.New("no resolver") })
	_, err := g.acquire(t.Context())
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, "no resolver")
	_, err = g.openKept()
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Zero(t, g.inFlight)
	g.close()
}

// A call that waits for a connection which allows no streams, and carries none, continues when
// another one replaces it.
func TestConnectionWithoutStreamsIsLost(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	first := make(chan net.Conn, 1)
	go func() {
		conn, err := lis.Accept()
		if !assert.NoError(t, err) {
			return
		}
		_, _ = conn.Write(settings(limit(0)))
		first <- conn
		_, _ = io.Copy(io.Discard, conn)
	}()
	pool, err := NewClient("passthrough:///"+lis.Addr().String(), Config{TransportCredentials: insecure.NewCredentials()})
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, pool.Ready(t.Context()))
	conn := <-first
	grpctest.ServeOn(t, lis, func(s grpc.ServiceRegistrar) { pb.RegisterTestServiceServer(s, pb.UnimplementedTestServiceServer{}) })

	answered := make(chan error, 1)
	go func() {
		_, err := pb.NewTestServiceClient(pool).EmptyCall(t.Context(), &pb.Empty{})
		answered <- err
	}()
	require.Eventually(t, func() bool { return pool.Stats().Unary.Waiting == 1 }, 30*time.Second, time.Millisecond)
	require.NoError(t, conn.Close())
	select {
	case err := <-answered:
		assert.ErrorContains(t, err, "Unimplemented")
	case <-time.After(30 * time.Second):
		t.Fatal("the call waits for ever")
	}
}

// The pool sees the loss of a connection before gRPC reports it, and the limit of the next one after gRPC reports that.
func TestALostConnectionIsConnectingAtOnce(t *testing.T) {
	pool, err := NewClient("passthrough:///"+grpctest.ServeHealth(t), Config{TransportCredentials: insecure.NewCredentials()})
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, pool.Ready(t.Context()))
	c := pool.groups[Unary].conns[0]
	for lost := range c.limits.conns {
		c.limits.leave(lost, true)
	}
	assert.Equal(t, connectivity.Ready, c.cc.GetState())
	assert.Equal(t, connectivity.Connecting, c.stateLocked())
	c.limits.set(&observedConn{limits: c.limits}, 10)
	assert.Equal(t, connectivity.Ready, c.stateLocked())
}
