package clientv3_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
)

var errUnknownMethod = status.Error(codes.Unimplemented, "unknown method RangeStream for service etcdserverpb.KV")

// oldStore is a store whose server does not stream.
func oldStore(keys int) *rangeStore {
	s := newRangeStore(keys)
	s.onChunk = func(int, int) error { return errUnknownMethod }
	return s
}

func TestPagesEqualTheRange(t *testing.T) {
	const keys = 2500
	requests := map[string][]OpOption{
		"prefix":         {WithPrefix()},
		"from key":       {WithFromKey()},
		"range":          {WithRange("k2000")},
		"keys only":      {WithPrefix(), WithKeysOnly()},
		"count only":     {WithPrefix(), WithCountOnly()},
		"one key":        {},
		"few keys":       {WithPrefix(), WithLimit(10)},
		"a page":         {WithPrefix(), WithLimit(100)},
		"two pages":      {WithPrefix(), WithLimit(300)},
		"one short":      {WithPrefix(), WithLimit(keys - 1)},
		"exact":          {WithPrefix(), WithLimit(keys)},
		"above":          {WithPrefix(), WithLimit(keys + 1)},
		"negative limit": {WithPrefix(), WithLimit(-1)},
		"revision":       {WithPrefix(), WithRev(keys - 1)},
	}
	for name, opts := range requests {
		t.Run(name, func(t *testing.T) {
			s := oldStore(keys)
			want, err := s.eval(rangeRequestOf(t, OpGet("k", opts...)))
			require.NoError(t, err)
			got, err := readStream(t, s, "k", append(opts, WithPageFallback())...)
			require.NoError(t, err)
			requireProto(t, want, got)

			_, ranges := s.sent()
			pages := 0
			for _, r := range ranges {
				if !r.CountOnly {
					pages++
				}
			}
			require.LessOrEqual(t, len(ranges)-pages, 1, "only the key that gave the revision is counted")
		})
	}
}

func TestPagesAreReadAtOneRevision(t *testing.T) {
	s := oldStore(2500)
	want, err := s.eval(rangeRequestOf(t, OpGet("k", WithPrefix())))
	require.NoError(t, err)
	s.onRange = func(n int, req *pb.RangeRequest) error {
		if n > 0 {
			require.Equal(t, int64(2500), req.Revision)
			s.put(fmt.Sprintf("k%04da", 100*n))
			s.clear()
		}
		return nil
	}
	got, err := readStream(t, s, "k", WithPrefix(), WithPageFallback())
	require.NoError(t, err)
	requireProto(t, want, got)
	streams, _ := s.sent()
	require.Len(t, streams, 1, "the method is tried once")
}

func TestPagesReplaceABrokenStream(t *testing.T) {
	// During an upgrade, the next member may be an older one.
	s := newRangeStore(500)
	want, err := s.eval(rangeRequestOf(t, OpGet("k", WithPrefix(), WithLimit(400))))
	require.NoError(t, err)
	s.onChunk = func(stream, chunk int) error {
		switch {
		case stream == 0 && chunk == 4:
			s.clear()
			return errBroken
		case stream == 1:
			return errUnknownMethod
		}
		return nil
	}
	got, err := readStream(t, s, "k", WithPrefix(), WithLimit(400), WithPageFallback())
	require.NoError(t, err)
	requireProto(t, want, got)
}

func TestPagesEndWithAnError(t *testing.T) {
	s := oldStore(2500)
	s.onRange = func(n int, _ *pb.RangeRequest) error {
		if n == 3 {
			return rpctypes.ErrGRPCCompacted
		}
		return nil
	}
	_, err := readStream(t, s, "k", WithPrefix(), WithPageFallback())
	require.Equal(t, rpctypes.ErrCompacted, err, "%v", err)
	_, ranges := s.sent()
	require.Len(t, ranges, 4)
}

// emptyPages says that more keys follow, and returns none.
type emptyPages struct{ *rangeStore }

func (s emptyPages) Range(ctx context.Context, req *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	resp, err := s.rangeStore.Range(ctx, req, opts...)
	if err != nil || req.CountOnly {
		return resp, err
	}
	return &pb.RangeResponse{Header: resp.Header, More: true, Count: resp.Count}, nil
}

func TestPagesEndWithAServerThatContradictsItself(t *testing.T) {
	s := oldStore(2500)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := NewKVFromKVClient(emptyPages{s}, nil).GetStream(ctx, "k", WithPrefix(), WithPageFallback())
	require.NoError(t, err)
	_, err = GetStreamToGetResponse(stream)
	require.ErrorContains(t, err, "more keys follow")
	_, ranges := s.sent()
	require.Len(t, ranges, 2)
}

func TestPagesFollowTheSizeOfTheValues(t *testing.T) {
	const keys = 300
	s := oldStore(keys)
	large := make([]byte, 128<<10)
	for _, kv := range s.history[keys] {
		kv.Value = large
	}
	got, err := readStream(t, s, "k", WithPrefix(), WithPageFallback())
	require.NoError(t, err)
	require.Len(t, got.Kvs, keys)
	_, ranges := s.sent()
	var limits []int64
	for _, r := range ranges[1:] { // without the one that chose the revision
		limits = append(limits, r.Limit)
	}
	// 100 keys are 12.5 MiB, 25 are between 1 and 4 MiB.
	require.Equal(t, []int64{100, 50, 25, 25, 25, 25, 25, 25}, limits)

	s = oldStore(2500)
	_, err = readStream(t, s, "k", WithPrefix(), WithPageFallback())
	require.NoError(t, err)
	_, ranges = s.sent()
	limits = nil
	for _, r := range ranges[1:] {
		limits = append(limits, r.Limit)
	}
	require.Equal(t, []int64{100, 200, 400, 800, 1000}, limits)
}

// rangeRequestOf returns the request of a get.
func rangeRequestOf(t *testing.T, op Op) *pb.RangeRequest {
	t.Helper()
	r := &recorder{}
	_, err := r.kv().Do(t.Context(), op)
	require.NoError(t, err)
	return r.only(t).req.(*pb.RangeRequest)
}
