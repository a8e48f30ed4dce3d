package clientv3

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// renewAlone renews a lease over a stream of its own, because the one for all was
// closed, before the call or in the middle of it. The official client allows that, and there are programs which give up
// a lease in that order.
func (l *lessor) renewAlone(ctx context.Context, id LeaseID) (*LeaseKeepAliveResponse, error) {
	retrier := l.retrier()
	for remote := l.streams(retrier); ; {
		resp, err := l.askAlone(ctx, remote, id)
		switch {
		case err == nil && resp.TTL <= 0:
			return nil, rpctypes.ErrLeaseNotFound
		case err == nil:
			return keepAliveResponse(resp), nil
		}
		if err := retrier.Next(ctx, err); err != nil {
			return nil, ContextError(ctx, err)
		}
	}
}

func (l *lessor) askAlone(ctx context.Context, remote pb.LeaseClient, id LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := remote.LeaseKeepAlive(ctx, l.callOpts...)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return nil, streamError(stream, err)
	}
	return stream.Recv()
}

// streamError returns why a stream takes no message: sending tells only that.
func streamError(stream pb.Lease_LeaseKeepAliveClient, err error) error {
	if _, cause := stream.Recv(); cause != nil {
		return cause
	}
	return err
}
