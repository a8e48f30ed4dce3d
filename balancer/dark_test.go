package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// dialer counts the attempts to reach an address; all of them if it has none, and reaches
// nothing then.
type dialer struct {
	addr     string
	attempts atomic.Int64
}

func (d *dialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	switch d.addr {
	case "":
		d.attempts.Add(1)
		return nil, errors.New("nothing is reached")
	case addr:
		d.attempts.Add(1)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

// connectSlowly returns a channel whose connections wait a minute after a failure.
func connectSlowly(t *testing.T, d *dialer, r *manual.Resolver) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("test:///", grpc.WithResolvers(r), grpc.WithContextDialer(d.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"quorate_round_robin":{}}]}`),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Minute, Multiplier: 1, MaxDelay: time.Minute}}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// Where nothing can be reached connections are not left to their backoff.
func TestHurriesWhileNothingIsConnected(t *testing.T) {
	s := startServer(t)
	s.grpc.Stop()
	d := &dialer{addr: s.addr()}
	r := manual.NewBuilderWithScheme("test")
	r.InitialState(stateOf(nil, s.addr()))
	conn := connectSlowly(t, d, r)
	conn.Connect()
	require.Eventually(t, func() bool { return d.attempts.Load() >= 4 }, 30*time.Second, 10*time.Millisecond)

	lis, err := net.Listen("tcp", s.addr())
	require.NoError(t, err)
	s.serve(lis)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = pb.NewTestServiceClient(conn).EmptyCall(ctx, &pb.Empty{}, grpc.WaitForReady(true))
	assert.NoError(t, err)
}

// When the last connection is lost, what failed long ago is not left to its backoff either.
func TestHurriesToEndpointsThatFailedBefore(t *testing.T) {
	up, down := startServer(t), startServer(t)
	down.grpc.Stop()
	d := &dialer{addr: down.addr()}
	r := manual.NewBuilderWithScheme("test")
	r.InitialState(stateOf(nil, up.addr()))
	conn := connectSlowly(t, d, r)
	client := pb.NewTestServiceClient(conn)
	_, err := client.EmptyCall(t.Context(), &pb.Empty{}, grpc.WaitForReady(true))
	require.NoError(t, err)
	r.UpdateState(stateOf(nil, up.addr(), down.addr()))
	require.Eventually(t, func() bool { return d.attempts.Load() >= 1 }, 30*time.Second, 10*time.Millisecond)
	up.grpc.Stop()
	require.Eventually(t, func() bool { return conn.GetState() != connectivity.Ready }, 30*time.Second, 10*time.Millisecond)

	lis, err := net.Listen("tcp", down.addr())
	require.NoError(t, err)
	down.serve(lis)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = client.EmptyCall(ctx, &pb.Empty{}, grpc.WaitForReady(true))
	assert.NoError(t, err)
}

// Many endpoints share what few have.
func TestHurriesNoMoreForMany(t *testing.T) {
	const n = 40
	addrs := make([]string, n)
	for i := range addrs {
		addrs[i] = fmt.Sprintf("10.0.0.%d:80", i)
	}
	var d dialer
	r := manual.NewBuilderWithScheme("test")
	r.InitialState(stateOf(nil, addrs...))
	conn := connectSlowly(t, &d, r)
	began := time.Now()
	conn.Connect()
	// One of them has had its third attempt then.
	require.Eventually(t, func() bool { return d.attempts.Load() > 2*n }, 30*time.Second, 10*time.Millisecond)
	assert.Greater(t, time.Since(began), 2*n/10*300*time.Millisecond)
}

// Where something is connected they are.
func TestDoesNotHurryWhileAnotherIsConnected(t *testing.T) {
	up, down := startServer(t), startServer(t)
	down.grpc.Stop()
	d := &dialer{addr: down.addr()}
	r := manual.NewBuilderWithScheme("test")
	r.InitialState(stateOf(nil, up.addr(), down.addr()))
	conn := connectSlowly(t, d, r)
	_, err := pb.NewTestServiceClient(conn).EmptyCall(t.Context(), &pb.Empty{}, grpc.WaitForReady(true))
	require.NoError(t, err)
	before := d.attempts.Load() // more than one if the other took its time
	time.Sleep(1500 * time.Millisecond)
	// One that was under way, which fails now.
	assert.LessOrEqual(t, d.attempts.Load(), before+1)
}

// A resolver's error is shown to calls, but for those that wait, whatever its type.
func TestCallsWaitWhileTheResolverFails(t *testing.T) {
	s := startServer(t)
	r := manual.NewBuilderWithScheme("test")
	r.InitialState(stateOf(nil)) // without a list gRPC asks no policy what to do with an error
	conn := connectSlowly(t, &dialer{addr: "none"}, r)
	conn.Connect()
	require.Eventually(t, func() bool { return conn.GetState() == connectivity.TransientFailure }, 30*time.Second, time.Millisecond)
	r.CC().ReportError(status.Error(codes.PermissionDenied, "no permission to watch"))
	client := pb.NewTestServiceClient(conn)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := client.EmptyCall(t.Context(), &pb.Empty{})
		assert.ErrorContains(c, err, "no permission to watch")
	}, 30*time.Second, time.Millisecond)
	waited := make(chan error)
	go func() {
		_, err := client.EmptyCall(t.Context(), &pb.Empty{}, grpc.WaitForReady(true))
		waited <- err
	}()
	select {
	case err := <-waited:
		require.Fail(t, "the call did not wait", "%v", err)
	case <-time.After(100 * time.Millisecond):
	}
	r.UpdateState(stateOf(nil, s.addr()))
	assert.NoError(t, <-waited)
}
