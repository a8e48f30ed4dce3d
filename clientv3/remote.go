package clientv3

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/internal/channel"
)

// RetryKVClient returns the KV service over the client's connection: calls carry
// the client's credentials and are retried according to the method's safety.
func RetryKVClient(c *Client) pb.KVClient {
	conn := c.transport()
	return &ownKV{pb.NewKVClient(conn), conn, orNone(c).history}
}

// RetryLeaseClient returns the Lease service over the client's connection: calls
// carry the client's credentials and are retried according to the method's safety.
func RetryLeaseClient(c *Client) pb.LeaseClient { return ownLease{pb.NewLeaseClient(c.transport())} }

// RetryClusterClient returns the Cluster service over the client's connection:
// calls carry the client's credentials and are retried according to the method's
// safety.
func RetryClusterClient(c *Client) pb.ClusterClient { return pb.NewClusterClient(c.transport()) }

// RetryAuthClient returns the Auth service over the client's connection: calls
// carry the client's credentials and are retried according to the method's safety.
func RetryAuthClient(c *Client) pb.AuthClient { return pb.NewAuthClient(c.transport()) }

// RetryMaintenanceClient returns the Maintenance service over conn, with the
// client's error handling. The caller closes conn.
func RetryMaintenanceClient(c *Client, conn *grpc.ClientConn) pb.MaintenanceClient {
	return pb.NewMaintenanceClient(c.over(conn))
}

// The remotes over the client's own connection, in addition to ownKV. Their streams can be
// opened over a Retrier; those of a program's own remote cannot.
type (
	ownLease       struct{ pb.LeaseClient }
	ownWatch       struct{ pb.WatchClient }
	ownMaintenance struct{ pb.MaintenanceClient }
)

func isOwn(remote any) bool {
	switch remote.(type) {
	case *ownKV, ownLease, ownWatch, ownMaintenance:
		return true
	default:
		return false
	}
}

// over returns the remote that opens streams: over the Retrier if remote is the
// client's own.
func over[T any](c *Client, r *channel.Retrier, remote T, make func(grpc.ClientConnInterface) T) T {
	if isOwn(remote) && c.channel != nil {
		return make(r)
	}
	return remote
}

// ownKV is the KV service over the client's own connection. It compares the header of each
// response to a get, put, delete or transaction with the history of the cluster.
type ownKV struct {
	pb.KVClient // for Compact and RangeStream, whose headers are not compared

	conn    grpc.ClientConnInterface
	history *lineage.Tracker
}

func (r *ownKV) Range(ctx context.Context, req *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return call(ctx, r, pb.KV_Range_FullMethodName, isCurrentRange, req, new(pb.RangeResponse), opts)
}

func (r *ownKV) Put(ctx context.Context, req *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	return call(ctx, r, pb.KV_Put_FullMethodName, always, req, new(pb.PutResponse), opts)
}

func (r *ownKV) DeleteRange(ctx context.Context, req *pb.DeleteRangeRequest, opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return call(ctx, r, pb.KV_DeleteRange_FullMethodName, always, req, new(pb.DeleteRangeResponse), opts)
}

func (r *ownKV) Txn(ctx context.Context, req *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return call(ctx, r, pb.KV_Txn_FullMethodName, isCurrentTxn, req, new(pb.TxnResponse), opts)
}

// call makes a call. A current response is not below any revision seen before the call.
func call[Req any, Resp interface{ GetHeader() *pb.ResponseHeader }](
	ctx context.Context, r *ownKV, method string, current func(Req, Resp) bool, req Req, resp Resp, opts []grpc.CallOption,
) (none Resp, err error) {
	history, least := r.history.Begin()
	if err := r.conn.Invoke(ctx, method, req, resp, static(opts)...); err != nil {
		return none, err
	}
	h := resp.GetHeader()
	if h.GetRevision() < least && !current(req, resp) {
		least = 0
	}
	r.history.Note(history, h, least)
	return resp, nil
}

// static returns call options that include StaticMethod, which gRPC's statistics use to
// name the method. The client's own options already begin with it and are not copied.
func static(opts []grpc.CallOption) []grpc.CallOption {
	if len(opts) > 0 {
		if _, ok := opts[0].(grpc.StaticMethodCallOption); ok {
			return opts
		}
	}
	return append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
}

func always[Req, Resp any](Req, Resp) bool { return true }

// isCurrentRange reports whether a response has the revision of the moment at which it was made. A
// grpc-proxy with a leasing prefix serves single keys from memory, with an earlier revision.
func isCurrentRange(req *pb.RangeRequest, _ *pb.RangeResponse) bool {
	return !req.GetSerializable() && len(req.GetRangeEnd()) > 0
}

// isCurrentTxn is isCurrentRange for a transaction. An etcd member serves an empty one, and one with
// serializable reads only, from its own state.
func isCurrentTxn(req *pb.TxnRequest, resp *pb.TxnResponse) bool {
	executed := req.GetFailure()
	if resp.GetSucceeded() {
		executed = req.GetSuccess()
	}
	return slices.ContainsFunc(executed, func(op *pb.RequestOp) bool {
		return op.GetRequestPut() != nil || op.GetRequestDeleteRange() != nil || isCurrentRange(op.GetRequestRange(), nil)
	})
}

// unary is a method of one of the protobuf clients.
type unary[Req, Resp any] func(context.Context, *Req, ...grpc.CallOption) (*Resp, error)

// invoke calls method. Its error is the one that the API documents, and its
// response is nil if the error is not.
func invoke[Req, Resp any](
	ctx context.Context, method unary[Req, Resp], req *Req, opts []grpc.CallOption,
) (*Resp, error) {
	resp, err := method(ctx, req, opts...)
	if err != nil {
		return nil, ContextError(ctx, err)
	}
	return resp, nil
}

// orNone returns c, or a client that has nothing: constructors of services accept a nil client.
func orNone(c *Client) *Client {
	if c == nil {
		return new(Client)
	}
	return c
}

// What follows adapts the services to a protobuf client supplied by the program, such
// as a mock written for the official client: it receives only the calls that
// callers make, in the official client's order.

// isHalt reports whether err ends a stream for good in the official client.
func isHalt(err error) bool {
	code := status.Code(err)
	return code != codes.Unavailable && code != codes.Internal
}

// errNoMessage is the error of a stream call that returns neither a result nor an
// error.
var errNoMessage = status.Error(codes.Unavailable, "etcdclient: the program's client returned neither a message nor an error")

// openForeign opens a stream over a program's client.
func openForeign[Req, Resp any](
	ctx context.Context, opts []grpc.CallOption,
	open func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Req, Resp], error),
) (grpc.BidiStreamingClient[Req, Resp], error) {
	stream, err := open(ctx, opts...)
	if err != nil {
		return nil, err
	}
	if stream == nil {
		return nil, errNoMessage
	}
	return &foreignStream[Req, Resp]{stream, ctx}, nil
}

// foreignStream is a stream of a program's client.
type foreignStream[Req, Resp any] struct {
	grpc.BidiStreamingClient[Req, Resp]
	ctx context.Context // that it was opened with
}

// Recv returns the next message. It returns when the context ends, even if the
// program's Recv does not; that Recv keeps its goroutine until it returns.
func (s *foreignStream[Req, Resp]) Recv() (*Resp, error) {
	type result struct {
		resp *Resp
		err  error
	}
	done := make(chan result, 1)
	go func() {
		resp, err := s.BidiStreamingClient.Recv()
		done <- result{resp, err}
	}()
	select {
	case r := <-done:
		if r.err == nil && r.resp == nil {
			return nil, errNoMessage
		}
		return r.resp, r.err
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// WithRequireLeader makes calls and streams with the returned context fail with
// rpctypes.ErrNoLeader, instead of waiting, when no reachable endpoint knows a
// leader. Other outgoing metadata of ctx is kept.
func WithRequireLeader(ctx context.Context) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx)
	if !ok {
		md = metadata.MD{}
	}
	// FromOutgoingContext returned a copy, so setting the key is not a race.
	md.Set(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	return metadata.NewOutgoingContext(ctx, md)
}
