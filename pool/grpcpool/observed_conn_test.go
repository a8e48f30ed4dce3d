package grpcpool

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
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

// Ready and Connect leave a connection alone that ends after its last stream.
func TestDrainingConnectionIsNotKept(t *testing.T) {
	g := newGroup(Bulk, Config{}.withDefaults(), func(*streamLimits) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///none", grpc.WithTransportCredentials(insecure.NewCredentials()))
	})
	defer g.close()
	require.NoError(t, g.openFirst())
	require.NoError(t, g.openFirst())
	g.conns[0].draining = true
	kept, err := g.openKept()
	require.NoError(t, err)
	assert.True(t, slices.Equal(g.conns[1:], kept))
}

// connected returns a pool whose minimum of unary connections to a server without TLS is ready.
func connected(t *testing.T, address string, config Config) *ClientConn {
	t.Helper()
	config.TransportCredentials = insecure.NewCredentials()
	pool, err := NewClient("passthrough:///"+address, config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	require.NoError(t, pool.Ready(t.Context()))
	return pool
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
	pool := connected(t, lis.Addr().String(), Config{})
	conn := <-first
	grpctest.ServeOn(t, lis, func(s grpc.ServiceRegistrar) { pb.RegisterTestServiceServer(s, pb.UnimplementedTestServiceServer{}) })

	answered := make(chan error, 1)
	go func() {
		_, err := pb.NewTestServiceClient(pool).EmptyCall(grpctest.Within(t, 30*time.Second), &pb.Empty{})
		answered <- err
	}()
	require.Eventually(t, func() bool { return pool.Stats().Unary.Waiting == 1 }, 30*time.Second, time.Millisecond)
	require.NoError(t, conn.Close())
	assert.ErrorContains(t, <-answered, "Unimplemented")
}

// The pool sees the loss of a connection before gRPC reports it, and the limit of the next one after gRPC reports that.
func TestALostConnectionIsConnectingAtOnce(t *testing.T) {
	c := connected(t, grpctest.ServeHealth(t), Config{}).groups[Unary].conns[0]
	for lost := range c.limits.conns {
		c.limits.leave(lost, true)
	}
	assert.Equal(t, connectivity.Ready, c.cc.GetState())
	assert.Equal(t, connectivity.Connecting, c.stateLocked())
	c.limits.set(&observedConn{limits: c.limits}, 10)
	assert.Equal(t, connectivity.Ready, c.stateLocked())
}

// Of two draining connections, one is full. The other is reused, and no new one is opened.
func TestReclaimsAFreeConnection(t *testing.T) {
	g := connected(t, grpctest.ServeHealth(t), Config{Unary: Bounds{Min: 3}, StreamsPerConnection: 2}).groups[Unary]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bounds.Min = 1
	for i, c := range g.conns {
		c.inFlight, c.draining = []int{2, 2, 1}[i], i != 1
	}
	c, _ := g.chooseLocked()
	assert.Same(t, g.conns[2], c)
	assert.Len(t, g.conns, 3)
}

// frame returns the bytes of an HTTP/2 frame on stream 0.
func frame(kind, flags byte, payload ...byte) []byte {
	header := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(append(header, flags, 0, 0, 0, 0), payload...)
}

// setting returns the bytes of one setting in a SETTINGS frame.
func setting(id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), value)
}

func settings(s ...[]byte) []byte { return frame(0x4, 0, slices.Concat(s...)...) }

func limit(n uint32) []byte { return setting(0x3, n) }

func TestSettingsReader(t *testing.T) {
	window := setting(0x4, 7) // the initial size of a stream's window
	ping := frame(0x6, 0, make([]byte, 8)...)
	for _, tt := range []struct {
		name   string
		stream []byte
		want   []uint32
	}{
		{"alone", settings(limit(100)), []uint32{100}},
		{"among others", settings(window, limit(128), window), []uint32{128}},
		{"nothing", nil, nil},
		{"no limit", settings(window), []uint32{unlimited}},
		{"empty", settings(), []uint32{unlimited}},
		{"the last of two", settings(limit(1), limit(2)), []uint32{2}},
		{"zero", settings(limit(0)), []uint32{0}},
		{"changed among other frames", slices.Concat(
			settings(limit(10)),
			frame(0x4, 0x1), // an acknowledgement
			frame(0x0, 0x1, bytes.Repeat(settings(limit(99)), 500)...), // data that looks like settings
			ping,
			settings(window),
			settings(limit(20)),
		), []uint32{10, 20}},
		{"not HTTP/2", slices.Concat(ping, settings(limit(10))), nil},
		{"incomplete setting", slices.Concat(settings(limit(10)), frame(0x4, 0, 1, 2, 3), settings(limit(11))), []uint32{10}},
		{"HTTP/1", []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, limits(tt.stream, func(left int) int { return left }), "in one piece")
			assert.Equal(t, tt.want, limits(tt.stream, func(int) int { return 1 }), "byte by byte")
		})
	}
}

// limits returns what a reader finds in bytes that arrive in pieces.
func limits(stream []byte, piece func(left int) int) []uint32 {
	var found []uint32
	r := settingsReader{found: func(limit uint32) { found = append(found, limit) }, leaving: func() {}}
	for len(stream) > 0 {
		n := piece(len(stream))
		r.read(stream[:n])
		stream = stream[n:]
	}
	return found
}

// The result does not depend on the size of the pieces.
func FuzzSettingsReader(f *testing.F) {
	f.Add([]byte{}, uint64(0))
	f.Add(slices.Concat(settings(limit(5)), frame(0x0, 0, 1, 2, 3), settings(limit(6))), uint64(1))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		got := limits(stream, func(left int) int { return 1 + rng.IntN(min(left, 12)) })
		assert.Equal(t, wholeLimits(stream), got)
	})
}

// wholeLimits is the reference: it reads complete frames.
func wholeLimits(stream []byte) []uint32 {
	var found []uint32
	for first := true; len(stream) >= 9; first = false {
		length := int(binary.BigEndian.Uint32(append([]byte{0}, stream[:3]...)))
		isSettings := stream[3] == 0x4 && stream[4]&0x1 == 0
		stream = stream[9:]
		if (first && !isSettings) || (isSettings && length%6 != 0) || length > len(stream) {
			return found
		}
		if isSettings {
			announced, last := first, uint32(unlimited)
			for s := stream[:length]; len(s) > 0; s = s[6:] {
				if binary.BigEndian.Uint16(s) == 0x3 {
					announced, last = true, binary.BigEndian.Uint32(s[2:])
				}
			}
			if announced {
				found = append(found, last)
			}
		}
		stream = stream[length:]
	}
	return found
}
