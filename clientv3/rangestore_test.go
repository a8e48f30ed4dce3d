package clientv3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rangeStore is a KVClient that reads from a store with a history. It streams ranges
// in chunks of a fixed size and breaks as its script says.
type rangeStore struct {
	pb.KVClient
	chunkKeys int
	// onChunk is called before a chunk is received, with the number of the stream and
	// of the chunk in it, from 0. An error breaks the stream there.
	onChunk func(stream, chunk int) error
	// onRange is called before a Range is answered, with its number, from 0.
	onRange func(n int, req *pb.RangeRequest) error
	// lateHeader sends the last chunk's keys before a chunk with the header and the count.
	lateHeader bool

	mu        sync.Mutex
	history   [][]*mvccpb.KeyValue // by revision
	compacted int64
	streams   []*pb.RangeRequest
	ranges    []*pb.RangeRequest
}

// newRangeStore returns a store with the given number of keys, k0000 and so on, each
// written at a revision of its own.
func newRangeStore(keys int) *rangeStore {
	kvs := make([]*mvccpb.KeyValue, keys)
	history := make([][]*mvccpb.KeyValue, keys+1)
	for i := range kvs {
		kvs[i] = newKV(fmt.Sprintf("k%04d", i), int64(i+1))
		history[i+1] = kvs[: i+1 : i+1]
	}
	return &rangeStore{chunkKeys: 3, history: history}
}

func newKV(key string, rev int64) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(key), Value: fmt.Appendf(nil, "at %d", rev), ModRevision: rev}
}

// put writes a key and increments the store's revision.
func (s *rangeStore) put(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rev := int64(len(s.history))
	kv := newKV(key, rev)
	kvs := slices.Clone(s.history[rev-1])
	at, found := slices.BinarySearchFunc(kvs, kv, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	if found {
		kvs[at] = kv
	} else {
		kvs = slices.Insert(kvs, at, kv)
	}
	s.history = append(s.history, kvs)
}

// clear deletes all keys.
func (s *rangeStore) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, nil)
}

func (s *rangeStore) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = int64(len(s.history)) - 1
}

func (s *rangeStore) sent() (streams, ranges []*pb.RangeRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.streams), slices.Clone(s.ranges)
}

func (s *rangeStore) Range(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	s.mu.Lock()
	n := len(s.ranges)
	s.ranges = append(s.ranges, req)
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if s.onRange != nil {
		if err := s.onRange(n, req); err != nil {
			return nil, err
		}
	}
	return s.eval(req)
}

// eval answers as etcd does.
func (s *rangeStore) eval(req *pb.RangeRequest) (*pb.RangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := int64(len(s.history)) - 1
	rev := req.Revision
	if rev <= 0 {
		rev = latest
	}
	switch {
	case len(req.Key) == 0:
		return nil, rpctypes.ErrGRPCEmptyKey
	case rev > latest:
		return nil, rpctypes.ErrGRPCFutureRev
	case rev < s.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	}
	resp := &pb.RangeResponse{Header: header(latest)}
	for _, kv := range s.history[rev] {
		if !inRange(kv.Key, req.Key, req.RangeEnd) {
			continue
		}
		resp.Count++
		if req.CountOnly {
			continue
		}
		if req.Limit > 0 && int64(len(resp.Kvs)) == req.Limit {
			resp.More = true
			continue
		}
		if req.KeysOnly {
			kv = &mvccpb.KeyValue{Key: kv.Key, ModRevision: kv.ModRevision}
		}
		resp.Kvs = append(resp.Kvs, kv)
	}
	return resp, nil
}

func inRange(key, start, end []byte) bool {
	switch {
	case len(end) == 0:
		return bytes.Equal(key, start)
	case bytes.Equal(end, []byte{0}):
		return bytes.Compare(key, start) >= 0
	default:
		return bytes.Compare(key, start) >= 0 && bytes.Compare(key, end) < 0
	}
}

func (s *rangeStore) RangeStream(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (pb.KV_RangeStreamClient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = append(s.streams, req)
	return &chunkStream{store: s, ctx: ctx, req: req, number: len(s.streams) - 1}, nil
}

var errUnsupported = status.Error(codes.Unimplemented, "RangeStream does not support this")

// chunkStream evaluates the range when it is first received from, and then cuts it.
type chunkStream struct {
	grpc.ClientStream
	store  *rangeStore
	ctx    context.Context
	req    *pb.RangeRequest
	number int

	chunks []*pb.RangeResponse
	next   int
}

func (c *chunkStream) Recv() (*pb.RangeStreamResponse, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if c.store.onChunk != nil {
		if err := c.store.onChunk(c.number, c.next); err != nil {
			return nil, err
		}
	}
	if c.chunks == nil {
		if c.req.SortOrder != pb.RangeRequest_NONE || c.req.MinModRevision != 0 {
			return nil, errUnsupported
		}
		whole, err := c.store.eval(c.req)
		if err != nil {
			return nil, err
		}
		c.chunks = cut(whole, c.store.chunkKeys, c.store.lateHeader)
	}
	if c.next == len(c.chunks) {
		return nil, io.EOF
	}
	c.next++
	return &pb.RangeStreamResponse{RangeResponse: c.chunks[c.next-1]}, nil
}

func cut(whole *pb.RangeResponse, keys int, lateHeader bool) []*pb.RangeResponse {
	var chunks []*pb.RangeResponse
	for kvs := range slices.Chunk(whole.Kvs, keys) {
		chunks = append(chunks, &pb.RangeResponse{Kvs: kvs})
	}
	if len(chunks) == 0 || lateHeader {
		chunks = append(chunks, &pb.RangeResponse{})
	}
	last := chunks[len(chunks)-1]
	last.Header, last.More, last.Count = whole.Header, whole.More, whole.Count
	return chunks
}
