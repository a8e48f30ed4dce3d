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

func (s *streamSource) RangeStream(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (pb.KV_RangeStreamClient, error) {
	stream := &rangeStream{source: s, ctx: ctx, op: s.part(req)}
	return stream, stream.open()
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

	source   *streamSource
	ctx      context.Context
	op       clientv3.Op
	in       clientv3.GetStreamChan
	received bool
	refusals int
	whole    bool // read with one call, see reopen
}

func (r *rangeStream) open() error {
	in, err := r.source.kv.store.GetStream(r.ctx, string(r.op.KeyBytes()), optxn.As(r.op))
	r.in = in
	return err
}

func (r *rangeStream) Recv() (*pb.RangeStreamResponse, error) {
	for {
		part, err := r.receive()
		if err == nil {
			r.received = true
			return &pb.RangeStreamResponse{RangeResponse: r.source.withRevision(part)}, nil
		}
		if r.received || !r.lags(err) {
			return nil, err
		}
		if err := r.reopen(); err != nil {
			return nil, err
		}
	}
}

func (r *rangeStream) receive() (*pb.RangeResponse, error) {
	if r.whole {
		return r.read()
	}
	select {
	case chunk, open := <-r.in:
		if !open {
			return nil, io.EOF
		}
		return chunk.RangeResponse, chunk.Err()
	case <-r.ctx.Done():
		return nil, r.ctx.Err()
	}
}

// read reads the range with one call.
func (r *rangeStream) read() (*pb.RangeResponse, error) {
	if r.received {
		return nil, io.EOF
	}
	resp, err := r.source.kv.store.Do(r.ctx, r.op)
	return (*pb.RangeResponse)(resp.Get()), err
}

// maxStreams is how many streams are opened after the first refused one, in 55 ms altogether: a
// member that lags has caught up by then, one that is cut off has not.
const maxStreams = 6

// lags reports whether err means that the member has not reached the revision yet,
// although another one has.
func (r *rangeStream) lags(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrFutureRev) && r.op.Rev() <= r.source.header.GetRevision()
}

// reopen tries again after a member that lags, if the OrderViolationFunc agrees. Streams of a
// client share a connection, and the next one may reach the same member; calls rotate over the
// members. So after maxStreams attempts it uses calls.
func (r *rangeStream) reopen() error {
	unknown := &clientv3.GetResponse{Header: &pb.ResponseHeader{}}
	if err := r.source.kv.violation(r.op, unknown.OpResponse(), r.op.Rev()); err != nil {
		return err
	}
	r.refusals++
	if err := pause.For(r.ctx, pauseAfter(r.refusals)); err != nil {
		return err
	}
	if r.refusals > maxStreams {
		r.whole = true
		return nil
	}
	return r.open()
}
