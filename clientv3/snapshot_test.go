package clientv3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
)

// snapshotServer is a MaintenanceClient that streams the given parts and then the error.
type snapshotServer struct {
	pb.MaintenanceClient
	parts [][]byte
	end   error
	// opening are the errors of the streams before the one that delivers.
	opening []error
	opened  int
	last    *snapshotStream
}

type snapshotStream struct {
	grpc.ClientStream
	server *snapshotServer
	ctx    context.Context
	err    error
	next   int
}

func (s *snapshotServer) Snapshot(ctx context.Context, _ *pb.SnapshotRequest, _ ...grpc.CallOption) (pb.Maintenance_SnapshotClient, error) {
	s.last = &snapshotStream{server: s, ctx: ctx}
	if s.opened < len(s.opening) {
		s.last.err = s.opening[s.opened]
	}
	s.opened++
	return s.last, nil
}

func (s *snapshotStream) Recv() (*pb.SnapshotResponse, error) {
	switch {
	case s.ctx.Err() != nil:
		return nil, status.FromContextError(s.ctx.Err()).Err()
	case s.err != nil:
		return nil, s.err
	case s.next < len(s.server.parts):
		s.next++
		return &pb.SnapshotResponse{Header: header(7), Version: "3.7.0", Blob: s.server.parts[s.next-1]}, nil
	case s.server.end != nil:
		return nil, s.server.end
	default: // a server that sends nothing
		<-s.ctx.Done()
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *snapshotServer) maintenance() Maintenance {
	return NewMaintenanceFromMaintenanceClient(s, nil)
}

// withDigest returns data as etcd streams it.
func withDigest(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(bytes.Clone(data), sum[:]...)
}

// split cuts data into parts of n bytes.
func split(data []byte, n int) [][]byte {
	var parts [][]byte
	for len(data) > n {
		parts, data = append(parts, data[:n]), data[n:]
	}
	return append(parts, data)
}

func TestSnapshot(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 20)
	whole := withDigest(data)
	etcd := append(split(data, 100), whole[len(data):]) // the digest in a part of its own
	tests := map[string]struct {
		parts [][]byte
		want  error
	}{
		"as etcd sends it":   {etcd, nil},
		"in one part":        {[][]byte{whole}, nil},
		"in bytes":           {split(whole, 1), nil},
		"digest split":       {split(whole, 33), nil},
		"empty parts":        {[][]byte{{}, whole[:10], {}, whole[10:], {}}, nil},
		"empty database":     {[][]byte{withDigest(nil)}, nil},
		"nothing":            {nil, ErrSnapshotDigest},
		"without digest":     {split(data, 100), ErrSnapshotDigest},
		"shorter than one":   {[][]byte{whole[len(whole)-31:]}, ErrSnapshotDigest},
		"last byte missing":  {split(whole[:len(whole)-1], 50), ErrSnapshotDigest},
		"first byte missing": {split(whole[1:], 50), ErrSnapshotDigest},
		"a part missing":     {append(split(data, 100)[1:], whole[len(data):]), ErrSnapshotDigest},
		"a bit flipped":      {[][]byte{withDigest(nil)[:5], whole}, ErrSnapshotDigest},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &snapshotServer{parts: tt.parts, end: io.EOF}
			resp, err := s.maintenance().SnapshotWithVersion(t.Context())
			require.NoError(t, err)
			if len(tt.parts) > 0 {
				require.Equal(t, "3.7.0", resp.Version)
				require.Equal(t, int64(7), resp.Header.Revision)
			}
			for _, read := range []func(io.Reader) io.Reader{
				func(r io.Reader) io.Reader { return r }, iotest.OneByteReader,
			} {
				rc, err := s.maintenance().Snapshot(t.Context())
				require.NoError(t, err)
				got, err := io.ReadAll(read(rc))
				require.Equal(t, tt.want, err)
				require.True(t, bytes.Equal(bytes.Join(tt.parts, nil), got), "what the server sent, in full")
				_, again := rc.Read(make([]byte, 1))
				if tt.want == nil {
					require.Equal(t, io.EOF, again)
				} else {
					require.Equal(t, tt.want, again)
				}
				require.Error(t, s.last.ctx.Err(), "the stream ends")
				require.NoError(t, rc.Close())
			}
			require.NoError(t, resp.Snapshot.Close())
		})
	}
}

func TestSnapshotBreaks(t *testing.T) {
	for name, tt := range map[string]struct{ end, want error }{
		"connection": {errBroken, errBroken},
		"server":     {rpctypes.ErrGRPCCorrupt, rpctypes.ErrCorrupt},
	} {
		s := &snapshotServer{parts: [][]byte{[]byte("part")}, end: tt.end}
		rc, err := s.maintenance().Snapshot(t.Context())
		require.NoError(t, err)
		got, err := io.ReadAll(rc)
		require.Equal(t, "part", string(got))
		require.Equal(t, tt.want, err, "%s: %v", name, err)
		require.Equal(t, 1, s.opened, "half a download is not repeated")
	}
}

func TestSnapshotIsReopened(t *testing.T) {
	s := &snapshotServer{
		parts:   [][]byte{withDigest([]byte("data"))},
		end:     io.EOF,
		opening: []error{errBroken, rpctypes.ErrGRPCNoLeader, errBroken},
	}
	rc, err := s.maintenance().Snapshot(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, s.opened)
	_, err = io.ReadAll(rc)
	require.NoError(t, err)
}

func TestSnapshotIsRefused(t *testing.T) {
	s := &snapshotServer{opening: []error{rpctypes.ErrGRPCPermissionDenied}}
	resp, err := s.maintenance().SnapshotWithVersion(t.Context())
	require.Nil(t, resp)
	require.Equal(t, rpctypes.ErrPermissionDenied, err, "%v", err)
	rc, err := (&snapshotServer{opening: []error{status.Error(codes.Unimplemented, "no")}}).maintenance().Snapshot(t.Context())
	require.Nil(t, rc)
	require.Equal(t, codes.Unimplemented, status.Code(err))
}

func TestSnapshotReadsAfterCancel(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	for name, buffered := range map[string]int{"with bytes left": 1, "with nothing left": 4} {
		ctx, cancel := context.WithCancel(t.Context())
		s := &snapshotServer{parts: [][]byte{[]byte("part"), []byte("more")}}
		rc, err := s.maintenance().Snapshot(ctx)
		require.NoError(t, err)
		_, err = io.ReadFull(rc, make([]byte, buffered))
		require.NoError(t, err)
		cancel()
		_, err = rc.Read(make([]byte, 1))
		require.Equal(t, context.Canceled, err, "%s: %v", name, err)
	}
	goleak.VerifyNone(t, leaks) // although none was closed
}

func TestSnapshotEndsWhileItIsRead(t *testing.T) {
	for want, end := range map[error]func(context.CancelFunc, io.Closer){
		context.Canceled: func(cancel context.CancelFunc, _ io.Closer) { cancel() },
		io.ErrClosedPipe: func(_ context.CancelFunc, rc io.Closer) {
			require.NoError(t, rc.Close())
			require.NoError(t, rc.Close())
		},
	} {
		leaks := goleak.IgnoreCurrent()
		ctx, cancel := context.WithCancel(t.Context())
		s := &snapshotServer{parts: [][]byte{[]byte("part")}}
		rc, err := s.maintenance().Snapshot(ctx)
		require.NoError(t, err)
		result := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(rc)
			result <- err
		}()
		end(cancel, rc)
		require.Equal(t, want, <-result, "a blocked read ends")
		_, err = rc.Read(make([]byte, 1))
		require.Equal(t, want, err)
		require.Error(t, s.last.ctx.Err(), "the stream ends")
		cancel()
		goleak.VerifyNone(t, leaks)
	}
}
