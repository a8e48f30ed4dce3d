package clientv3_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// collect returns what a sequence yields before its error, and the error, which nothing may follow.
func collect[T any](t *testing.T, seq iter.Seq2[T, error]) (all []T, failed error) {
	t.Helper()
	for v, err := range seq {
		require.NoError(t, failed, "an error is the last")
		if err != nil {
			failed = err
			continue
		}
		all = append(all, v)
	}
	return all, failed
}

// noStreams is a KV without GetStream, as that of package leasing is.
type noStreams struct{ KV }

func (noStreams) GetStream(context.Context, string, ...OpOption) (GetStreamChan, error) {
	return nil, status.Error(codes.Unimplemented, "GetStream is not supported")
}

// TestPagesAreTheRange compares pages with the response to one get, from a server that streams and one that does not, and
// from a KV that does not.
func TestPagesAreTheRange(t *testing.T) {
	const keys = 600
	for name, opts := range map[string][]OpOption{
		"prefix":               {WithPrefix()},
		"of the second page":   {WithPrefix(), WithLimit(400)},
		"of the first page":    {WithPrefix(), WithLimit(100)},
		"one short":            {WithPrefix(), WithLimit(keys - 1)},
		"as many as there are": {WithPrefix(), WithLimit(keys)},
		"one more":             {WithPrefix(), WithLimit(keys + 1)},
		"negative limit":       {WithPrefix(), WithLimit(-1)},
		"from a key":           {WithFromKey()},
		"at a revision":        {WithPrefix(), WithRev(500)},
		"sorted":               {WithPrefix(), WithSort(SortByModRevision, SortDescend)},
		"keys only":            {WithPrefix(), WithKeysOnly()},
		"count":                {WithPrefix(), WithCountOnly()},
		"serializable":         {WithPrefix(), WithSerializable()},
		"one key":              nil,
		"nothing":              {WithRange("k0")},
	} {
		for _, kv := range []KV{
			NewKVFromKVClient(newRangeStore(keys), nil), NewKVFromKVClient(oldStore(keys), nil),
			noStreams{NewKVFromKVClient(newRangeStore(keys), nil)},
		} {
			want := clienttest.Get(t, kv, "k", opts...)
			pages, err := collect(t, Pages(t.Context(), kv, "k", opts...))
			require.NoError(t, err, name)
			got := &pb.RangeResponse{Header: pages[0].Header}
			for i, page := range pages {
				assert.LessOrEqual(t, i, 200)
				assert.Same(t, pages[0].Header, page.Header)
				assert.Equal(t, want.Count, page.Count, name)
				assert.True(t, i == len(pages)-1 || page.More, name)
				got.Kvs, got.Count, got.More = append(got.Kvs, page.Kvs...), page.Count, page.More
			}
			requireProto(t, (*pb.RangeResponse)(want), got)
		}
	}
}

// TestPagesFitTheLimitForMessages reads keys of which ten fit into a message.
func TestPagesFitTheLimitForMessages(t *testing.T) {
	tooLarge := status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5242880 vs. 4194304)")
	limited := func(store *rangeStore, fit int64) *rangeStore {
		store.onRange = func(_ int, req *pb.RangeRequest) error {
			if !req.CountOnly && req.Limit > fit {
				return tooLarge
			}
			return nil
		}
		return store
	}
	streams := limited(newRangeStore(600), 10)
	streams.onChunk = func(_, chunk int) error {
		if chunk == 5 {
			return tooLarge
		}
		return nil
	}
	for _, kv := range []KV{
		NewKVFromKVClient(streams, nil), NewKVFromKVClient(limited(oldStore(600), 10), nil),
		noStreams{NewKVFromKVClient(limited(newRangeStore(600), 10), nil)},
	} {
		keys := clienttest.Must(collect(t, Range(t.Context(), kv, "k", WithPrefix())))
		require.Len(t, keys, 600)
	}
	_, err := collect(t, Range(t.Context(), NewKVFromKVClient(limited(newRangeStore(1), 0), nil), "k", WithPrefix()))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
}

// TestRangeIsReadAtOneRevision writes while a range is read. Each loop reads again.
func TestRangeIsReadAtOneRevision(t *testing.T) {
	for name, store := range map[string]*rangeStore{"stream": newRangeStore(600), "pages": oldStore(600), "negative": oldStore(600)} {
		t.Run(name, func(t *testing.T) {
			kv, opts := NewKVFromKVClient(store, nil), []OpOption{WithPrefix()}
			if name == "negative" {
				opts = append(opts, WithRev(-50)) // the latest, to etcd
			}
			keys := Range(t.Context(), kv, "k", opts...)
			for loop := range 2 {
				n := 0
				for kv, err := range keys {
					require.NoError(t, err)
					require.LessOrEqual(t, kv.ModRevision, int64(600+600*loop))
					store.put(fmt.Sprintf("k%04d", 599-n%600))
					n++
				}
				require.Equal(t, 600, n)
			}
		})
	}
}

func TestRangeEndsWithAnError(t *testing.T) {
	store := newRangeStore(600)
	kv := NewKVFromKVClient(store, nil)
	store.onChunk = func(_, chunk int) error {
		if chunk == 2 {
			store.put("k0000")
			store.compact()
			return errBroken
		}
		return nil
	}
	all, err := collect(t, Range(t.Context(), kv, "k", WithPrefix()))
	require.ErrorIs(t, err, rpctypes.ErrCompacted)
	require.Len(t, all, 256+2*store.chunkKeys)

	_, err = collect(t, Range(t.Context(), kv, "k", WithPrefix(), WithRev(10_000)))
	require.ErrorIs(t, err, rpctypes.ErrFutureRev)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err = range Range(ctx, kv, "k", WithPrefix()) {
		if n++; n == 1 {
			cancel()
		}
	}
	require.ErrorIs(t, err, context.Canceled)
	require.Panics(t, func() { Range(t.Context(), kv, "k", WithPrefix(), WithFromKey()) }, "as OpGet")
}

// TestRangeThatStopsEarly ends the stream with the loop: goleak fails otherwise.
func TestRangeThatStopsEarly(t *testing.T) {
	kv := NewKVFromKVClient(newRangeStore(600), nil)
	for _, stop := range []int{1, 256, 257, 300} {
		n := 0
		for range Range(t.Context(), kv, "k", WithPrefix()) {
			if n++; n == stop {
				break
			}
		}
		require.Equal(t, stop, n)
	}
}

// TestSerializableRangeOverAMemberBehind reads the rest from a member that has not reached the revision of the first page.
func TestSerializableRangeOverAMemberBehind(t *testing.T) {
	store := newRangeStore(600)
	store.onChunk = func(stream, _ int) error {
		if streams, _ := store.sent(); streams[stream].Serializable {
			return rpctypes.ErrGRPCFutureRev
		}
		return nil
	}
	all := clienttest.Must(collect(t, Range(t.Context(), NewKVFromKVClient(store, nil), "k", WithPrefix(), WithSerializable())))
	require.Len(t, all, 600)

	store.onRange = func(_ int, req *pb.RangeRequest) error {
		if req.Serializable && req.Revision != 0 {
			return rpctypes.ErrGRPCFutureRev
		}
		return nil
	}
	kv := noStreams{NewKVFromKVClient(store, nil)}
	all = clienttest.Must(collect(t, Range(t.Context(), kv, "k", WithPrefix(), WithSerializable())))
	require.Len(t, all, 600)
}

func TestEvents(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	for i := range 3 {
		clienttest.Put(t, cluster, fmt.Sprint("k", i), "v")
	}
	ctx, cancel := context.WithCancel(clienttest.Within(t))
	defer cancel()
	var keys []string
	var last error
	for ev, err := range Events(ctx, c, "k", WithPrefix(), WithRev(2)) {
		if last = err; err != nil {
			continue
		}
		if keys = append(keys, string(ev.Kv.Key)); len(keys) == 3 {
			cancel()
		}
	}
	require.Equal(t, []string{"k0", "k1", "k2"}, keys)
	require.ErrorIs(t, last, context.Canceled)

	require.NoError(t, cluster.Compact(3))
	_, err := collect(t, Events(clienttest.Within(t), c, "k", WithPrefix(), WithRev(2)))
	require.ErrorIs(t, err, rpctypes.ErrCompacted)
	require.NoError(t, c.Watcher.Close())
	_, err = collect(t, Events(clienttest.Within(t), c, "k"))
	require.ErrorContains(t, err, "was closed")
	require.True(t, IsConnCanceled(err))
}

func TestLeasesAndMembers(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 3)
	ids := map[LeaseID]bool{}
	for range 3 {
		lease := clienttest.Must(c.Grant(clienttest.Within(t), 60))
		ids[lease.ID] = true
		clienttest.Must(c.Put(clienttest.Within(t), fmt.Sprint(lease.ID), "v", WithLease(lease.ID)))
	}
	cluster.Once("LeaseTimeToLive", func(call *fakeetcd.Call) { // this one ends between the list and the question
		id := call.Request.(*pb.LeaseTimeToLiveRequest).ID
		assert.NoError(t, cluster.ExpireLease(id))
		delete(ids, LeaseID(id))
		_, _ = call.Execute()
	})
	leases := clienttest.Must(collect(t, Leases(clienttest.Within(t), c, WithAttachedKeys())))
	require.Len(t, leases, 2)
	for _, lease := range leases {
		require.True(t, ids[lease.ID])
		require.Equal(t, [][]byte{fmt.Append(nil, lease.ID)}, lease.Keys)
	}
	members := clienttest.Must(collect(t, Members(clienttest.Within(t), c)))
	require.Len(t, members, 3)

	ctx := clienttest.Ended(t)
	_, err := collect(t, Leases(ctx, c))
	require.ErrorIs(t, err, context.Canceled)
	_, err = collect(t, Members(ctx, c))
	require.ErrorIs(t, err, context.Canceled)
}

var errUnknownMethod = status.Error(codes.Unimplemented, "unknown method RangeStream for service etcdserverpb.KV")

// oldStore is a store whose server does not stream.
func oldStore(keys int) *rangeStore {
	s := newRangeStore(keys)
	s.onChunk = func(int, int) error { return errUnknownMethod }
	return s
}

func TestPagesReplaceABrokenStream(t *testing.T) {
	// During an upgrade, the next member may be an older one.
	s := newRangeStore(500)
	want := clienttest.Get(t, NewKVFromKVClient(s, nil), "k", WithPrefix(), WithLimit(400))
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
	got := clienttest.Must(readStream(t, s, "k", WithPrefix(), WithLimit(400), WithPageFallback()))
	requireProto(t, (*pb.RangeResponse)(want), got)
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
	stream := clienttest.Must(NewKVFromKVClient(emptyPages{s}, nil).GetStream(clienttest.Within(t), "k", WithPrefix(), WithPageFallback()))
	_, err := GetStreamToGetResponse(stream)
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
	got := clienttest.Must(readStream(t, s, "k", WithPrefix(), WithPageFallback()))
	require.Len(t, got.Kvs, keys)
	_, ranges := s.sent()
	var limits []int64
	for _, r := range ranges[1:] { // without the one that chose the revision
		limits = append(limits, r.Limit)
	}
	// 100 keys are 12.5 MiB, 15 are nearly 2 MiB.
	require.Equal(t, append([]int64{100}, slices.Repeat([]int64{15}, 14)...), limits)

	s = oldStore(2500)
	clienttest.Must(readStream(t, s, "k", WithPrefix(), WithPageFallback()))
	_, ranges = s.sent()
	limits = nil
	for _, r := range ranges[1:] {
		limits = append(limits, r.Limit)
	}
	require.Equal(t, []int64{100, 200, 400, 800, 1000}, limits)
}
