package ordering

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/pause"
)

// GetStream reads at a revision that is known beforehand, so it need not buffer the
// keys until the header at the end of the stream gives their revision.
func (kv *kvOrdering) GetStream(ctx context.Context, key string, opts ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	op := clientv3.OpGet(key, opts...)
	count := []clientv3.OpOption{clientv3.WithCountOnly()}
	if op.IsSerializable() {
		count = append(count, clientv3.WithSerializable())
	}
	resp, err := kv.Get(ctx, string(op.KeyBytes()), count...) // of the first key of the range
	if err != nil {
		return nil, err
	}
	if op.Rev() == 0 {
		clientv3.WithRev(resp.Header.GetRevision())(&op)
	}
	source := &streamSource{kv: kv, op: op, header: resp.Header}
	return clientv3.NewKVFromKVClient(source, nil).GetStream(ctx, key, optxn.As(op))
}

// streamSource is the KVClient of one GetStream: it passes the reads of clientv3's
// GetStream to the wrapped KV, and adds the header that was read before.
type streamSource struct {
	pb.KVClient // nil: GetStream calls only the methods below

	kv     *kvOrdering
	op     clientv3.Op
	header *pb.ResponseHeader
}

// part returns the operation for a part of the range.
func (s *streamSource) part(req *pb.RangeRequest) clientv3.Op {
	op := s.op
	op.WithKeyBytes(req.Key)
	op.WithRangeBytes(req.RangeEnd)
	clientv3.WithLimit(req.Limit)(&op)
	if req.CountOnly {
		clientv3.WithCountOnly()(&op)
	}
	return op
}

// Range reads a page if the range cannot be streamed.
func (s *streamSource) Range(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	resp, err := s.kv.Do(ctx, s.part(req))
	if err != nil {
		return nil, err
	}
	return s.withRevision((*pb.RangeResponse)(resp.Get())), nil
}

// maxStreams is how many streams are opened after the first refused one, in 55 ms altogether: a
// member that lags has caught up by then, one that is cut off has not.
const maxStreams = 6

// RangeStream tries again after a member that lags, if the OrderViolationFunc agrees. Streams of a
// client share a connection, and the next one may reach the same member; calls rotate over the
// members. So after maxStreams attempts it uses calls.
func (s *streamSource) RangeStream(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (pb.KV_RangeStreamClient, error) {
	op, unknown := s.part(req), &clientv3.GetResponse{Header: &pb.ResponseHeader{}}
	for refusals := 1; ; refusals++ {
		in, err := s.open(ctx, op, refusals > maxStreams+1)
		stream := &rangeStream{source: s, ctx: ctx, in: in}
		if err == nil {
			stream.first, err = stream.Recv()
		}
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return stream, nil
		case !s.lags(op, err):
			return nil, err
		}
		if err := s.kv.violation(op, unknown.OpResponse(), op.Rev()); err != nil {
			return nil, err
		}
		if err := pause.For(ctx, pauseAfter(refusals)); err != nil {
			return nil, err
		}
	}
}

// open begins to read the range as a stream, or reads it with one call.
func (s *streamSource) open(ctx context.Context, op clientv3.Op, whole bool) (clientv3.GetStreamChan, error) {
	if !whole {
		return s.kv.store.GetStream(ctx, string(op.KeyBytes()), optxn.As(op))
	}
	resp, err := s.kv.store.Do(ctx, op)
	one := make(chan clientv3.RangeStreamResponse, 1)
	one <- clientv3.RangeStreamResponse{RangeResponse: (*pb.RangeResponse)(resp.Get())}
	close(one)
	return one, err
}

// lags reports whether err means that the member has not reached the revision yet,
// although another one has.
func (s *streamSource) lags(op clientv3.Op, err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrFutureRev) && op.Rev() <= s.header.GetRevision()
}

// withRevision sets the header of a response that has one. Data read at a revision must
// not claim a later one: programs watch from the next revision.
func (s *streamSource) withRevision(resp *pb.RangeResponse) *pb.RangeResponse {
	if resp.GetHeader() == nil {
		return resp
	}
	return &pb.RangeResponse{Header: s.header, Kvs: resp.Kvs, More: resp.More, Count: resp.Count}
}

// rangeStream receives from the wrapped KV.
type rangeStream struct {
	grpc.ClientStream // nil: GetStream calls only Recv

	source *streamSource
	ctx    context.Context
	in     clientv3.GetStreamChan
	first  *pb.RangeStreamResponse // received by RangeStream; nil once Recv has returned it
}

func (r *rangeStream) Recv() (*pb.RangeStreamResponse, error) {
	if first := r.first; first != nil {
		r.first = nil
		return first, nil
	}
	select {
	case chunk, open := <-r.in:
		if !open {
			return nil, io.EOF
		}
		if err := chunk.Err(); err != nil {
			return nil, err
		}
		return &pb.RangeStreamResponse{RangeResponse: r.source.withRevision(chunk.RangeResponse)}, nil
	case <-r.ctx.Done():
		return nil, r.ctx.Err()
	}
}
