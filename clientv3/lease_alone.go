package clientv3

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// errStreamEnded replaces the EOF of a stream without a response: the member or a
// proxy is shutting down.
var errStreamEnded = status.Error(codes.Unavailable, "etcdclient: the endpoint ended the keepalive stream without an answer")

// sharesStream reports whether a KeepAliveOnce can use the shared stream. Outgoing
// metadata of the caller, other than require-leader, would be lost there. A program's
// own client gets one stream per call, as from the official client.
func (l *lessor) sharesStream(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	for key := range md {
		if key != rpctypes.MetadataRequireLeaderKey {
			return false
		}
	}
	return isOwn(l.remote)
}

// renewAlone renews a lease over a separate stream: the shared one does not fit the
// call, see sharesStream, or was closed before or during the call. The official client
// allows a KeepAliveOnce after Close, and programs rely on it.
func (l *lessor) renewAlone(ctx context.Context, id LeaseID) (*LeaseKeepAliveResponse, error) {
	for streams := l.streams(); ; {
		start := time.Now()
		resp, err := streams.ask(ctx, id)
		switch {
		case err == nil && resp.TTL <= 0:
			return keepAliveResponse(resp), rpctypes.ErrLeaseNotFound
		case err == nil:
			l.engine.Granted(start, resp.ID, resp.TTL)
			return keepAliveResponse(resp), nil
		case !streams.own && isHalt(err):
			return nil, ContextError(ctx, err)
		case errors.Is(err, io.EOF):
			err = errStreamEnded
		}
		if err := streams.Next(ctx, err); err != nil {
			return nil, ContextError(ctx, err)
		}
	}
}

// ask makes one attempt. A member without a leader cannot renew the lease, so
// the client's own stream requires a leader: it ends at once there, and the next
// one goes to another member.
func (s *leaseStreams) ask(ctx context.Context, id LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.own {
		ctx = WithRequireLeader(ctx)
	}
	stream, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return nil, streamError(stream, err)
	}
	return stream.Recv()
}

// streamError returns why a Send failed: Send itself returns only io.EOF.
func streamError(stream pb.Lease_LeaseKeepAliveClient, err error) error {
	if _, cause := stream.Recv(); cause != nil {
		return cause
	}
	return err
}
