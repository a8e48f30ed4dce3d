package clientv3

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// ErrSnapshotDigest is returned by the last read of a snapshot that does not match
// the digest at its end. What was read is truncated or corrupt and must not be
// restored.
var ErrSnapshotDigest = errors.New(
	"etcdclient: snapshot does not match its SHA-256 digest: it is truncated or corrupt, download it again")

// SnapshotResponse is a snapshot that is being downloaded.
type SnapshotResponse struct {
	// Header is the header of the stream's first message. It is nil when the server
	// sends none; etcd up to 3.7 does not.
	Header *pb.ResponseHeader

	// Snapshot delivers the database file, followed by the 32 bytes of its SHA-256
	// digest. Parts are fetched as they are read, and the digest is checked on the
	// way: io.EOF means that it matches, [ErrSnapshotDigest] that it does not. A
	// broken download cannot be resumed and gives the error that broke it. Once the
	// context of the call has ended, reads return its error.
	//
	// It must be read to an error or closed, otherwise it holds a stream until the
	// context ends. Close may be called while a read waits, and ends it.
	Snapshot io.ReadCloser

	// Version is the storage version of the member, which tells the etcd that can
	// restore the snapshot. Servers before etcd 3.6 leave it empty.
	Version string
}

func (m *maintenance) SnapshotWithVersion(ctx context.Context) (*SnapshotResponse, error) {
	retrier := m.client.retrier(pb.Maintenance_Snapshot_FullMethodName)
	remote := over(m.client, retrier, m.remote, pb.NewMaintenanceClient)
	for {
		first, reader, err := openSnapshot(ctx, remote, m.callOpts)
		if err == nil {
			return &SnapshotResponse{
				Header:   first.GetHeader(),
				Snapshot: reader,
				Version:  first.GetVersion(),
			}, nil
		}
		if err := retrier.Next(ctx, err); err != nil {
			return nil, ContextError(ctx, err)
		}
	}
}

func (m *maintenance) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	resp, err := m.SnapshotWithVersion(ctx)
	if err != nil {
		return nil, err
	}
	return resp.Snapshot, nil
}

// openSnapshot opens a stream and waits for its first message, nil if there is none.
func openSnapshot(
	ctx context.Context, remote pb.MaintenanceClient, opts []grpc.CallOption,
) (*pb.SnapshotResponse, *snapshotReader, error) {
	streamCtx, cancel := context.WithCancel(ctx)
	stream, err := remote.Snapshot(streamCtx, &pb.SnapshotRequest{}, opts...)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	first, err := stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return nil, nil, err
	}
	r := &snapshotReader{ctx: ctx, cancel: cancel, stream: stream, closed: make(chan struct{})}
	r.accept(first, err)
	return first, r, nil
}
