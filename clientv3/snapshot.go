package clientv3

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// ErrSnapshotDigest is returned by the last read of a snapshot that does not match
// the digest at its end. The data is truncated or corrupt and must not be restored.
var ErrSnapshotDigest = errors.New(
	"etcdclient: snapshot does not match its SHA-256 digest: it is truncated or corrupt, download it again")

// SnapshotResponse is a snapshot that is being downloaded.
type SnapshotResponse struct {
	// Header is the header of the stream's first message. It is nil if the server
	// sends none; etcd up to 3.7 sends none.
	Header *pb.ResponseHeader

	// Snapshot delivers the database file, followed by the 32 bytes of its SHA-256
	// digest. Each read fetches what it needs and updates the digest: io.EOF means
	// that the digest matches, [ErrSnapshotDigest] that it does not. A broken
	// download cannot be resumed; reads return the error that broke it. Once the
	// context of the call has ended, reads return its error.
	//
	// Read it until an error or close it; otherwise it holds a stream until the
	// context ends. Close may be called during a read, and ends it.
	Snapshot io.ReadCloser

	// Version is the storage version of the member, which determines the etcd
	// versions that can restore the snapshot. It is empty before etcd 3.6.
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
	r := &snapshotReader{ctx: ctx, streamCtx: streamCtx, cancel: cancel, stream: stream, digest: digestCheck{sum: sha256.New()}}
	r.accept(first, err)
	return first, r, nil
}
