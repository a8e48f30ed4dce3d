package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mirror"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func putKeys(t *testing.T, cluster *fakeetcd.Cluster, prefix string, n int) {
	t.Helper()
	for i := range n {
		clienttest.Put(t, cluster, fmt.Sprintf("%s%04d", prefix, i), "v")
	}
}

// collect reads a base to its end.
func collect(pages <-chan *clientv3.GetResponse, errs <-chan error) (keys []string, err error) {
	for page := range pages {
		for _, kv := range page.Kvs {
			keys = append(keys, string(kv.Key))
		}
	}
	return keys, <-errs
}

func TestSyncBase(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, "a", 3)
	putKeys(t, cluster, "b", 250)
	putKeys(t, cluster, "\xff\xff", 2)
	for name, tt := range map[string]struct {
		prefix      string
		rev         int64
		n           int
		first, last string
	}{
		"all keys":       {"", 0, 255, "a0000", "\xff\xff0001"},
		"prefix":         {"b", 0, 250, "b0000", "b0249"},
		"prefix of 0xff": {"\xff", 0, 2, "\xff\xff0000", "\xff\xff0001"},
		"nothing":        {"x", 0, 0, "", ""},
		"revision":       {"", 5, 4, "a0000", "b0000"},
		"negative":       {"a", -5, 3, "a0000", "a0002"},
	} {
		t.Run(name, func(t *testing.T) {
			pages, errs := mirror.NewSyncer(c, tt.prefix, tt.rev).SyncBase(t.Context())
			keys := clienttest.Must(collect(pages, errs))
			require.Len(t, keys, tt.n)
			require.IsIncreasing(t, append([]string{""}, keys...))
			if tt.n > 0 {
				require.Equal(t, tt.first, keys[0])
				require.Equal(t, tt.last, keys[tt.n-1])
			}
		})
	}
}

// TestSyncBaseIsOneState writes between the pages.
func TestSyncBaseIsOneState(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, "k", 2000)
	base := cluster.Revision()
	cluster.On("Range", func(call *fakeetcd.Call) {
		_, err := call.Execute()
		assert.NoError(t, err)
		_, err = cluster.Put(fmt.Sprintf("k%04d.new", 100*call.Number), "v")
		assert.NoError(t, err)
	})
	c.KV = &paged{KV: c.KV, left: math.MaxInt}
	s := mirror.NewSyncer(c, "", 0)
	var sizes []int
	pages, errs := s.SyncBase(t.Context())
	for page := range pages {
		sizes = append(sizes, len(page.Kvs))
		for _, kv := range page.Kvs {
			assert.LessOrEqual(t, kv.ModRevision, base)
		}
		assert.Equal(t, len(sizes) < 4, page.More)
	}
	require.NoError(t, <-errs)
	require.Equal(t, []int{256, 512, 1000, 232}, sizes)
	for _, call := range cluster.Calls("Range")[1:] {
		require.Equal(t, base, call.Request().(*pb.RangeRequest).Revision)
	}

	pages, errs = s.SyncBase(t.Context())
	keys := clienttest.Must(collect(pages, errs))
	require.Len(t, keys, 2000, "the revision is that of the Syncer")
}

// A grpc-proxy with a leasing prefix serves single keys from memory, with an earlier revision.
func TestSyncBaseBehindALeasingProxy(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, "k", 10)
	cluster.On("Range", func(call *fakeetcd.Call) {
		if len(call.Request.(*pb.RangeRequest).RangeEnd) == 0 {
			call.Answer(&pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 1}}, nil)
		}
	})
	kvs := clienttest.Must(collect(mirror.NewSyncer(c, "k", 0).SyncBase(t.Context())))
	require.Len(t, kvs, 10)
}

// TestPagesOfLargeValues reads with a client that does not accept what the first page asks for.
func TestPagesOfLargeValues(t *testing.T) {
	cluster := clienttest.Start(t, 1)
	c := clienttest.Connect(t, cluster, clientv3.Config{MaxCallRecvMsgSize: 2 << 20})
	for i := range 135 {
		clienttest.Put(t, cluster, fmt.Sprintf("k%03d", i), strings.Repeat("v", 100_000))
	}
	keys := clienttest.Must(collect(mirror.NewSyncer(c, "", 0).SyncBase(t.Context())))
	require.Len(t, keys, 135)
}

// TestPagesAreTheReaders changes every page that it gets.
func TestPagesAreTheReaders(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, "k", 2000)
	pages, errs := mirror.NewSyncer(c, "", 0).SyncBase(t.Context())
	n := 0
	for page := range pages {
		n += len(page.Kvs)
		for _, kv := range page.Kvs {
			kv.Key = append(kv.Key[:0], "renamed"...)
		}
		page.Kvs, page.More = nil, false
	}
	require.NoError(t, <-errs)
	require.Equal(t, 2000, n)
}

// paged is a KV without streams that a program has put in place of the client's. It fails after some reads.
type paged struct {
	clientv3.KV
	left int
	err  error
}

func (p *paged) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := p.Do(ctx, clientv3.OpGet(key, opts...))
	return resp.Get(), err
}

func (p *paged) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if p.left--; p.left < 0 {
		return clientv3.OpResponse{}, p.err
	}
	return p.KV.Do(ctx, op)
}

func (*paged) GetStream(context.Context, string, ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	return nil, status.Error(codes.Unimplemented, "")
}

func TestSyncBaseErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		reads int // before the one that fails
		err   error
		keys  int
	}{
		"no revision":  {0, rpctypes.ErrPermissionDenied, 0},
		"first page":   {1, rpctypes.ErrCompacted, 0},
		"second page":  {2, rpctypes.ErrCompacted, 256},
		"another page": {3, errors.New("without a status"), 768},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 1)
			putKeys(t, cluster, "k", 2000)
			c.KV = &paged{c.KV, tt.reads, tt.err}
			pages, errs := mirror.NewSyncer(c, "", 0).SyncBase(t.Context())
			keys, err := collect(pages, errs)
			require.Equal(t, tt.err, err)
			require.Len(t, keys, tt.keys, "what was read before is delivered")
			_, open := <-errs
			require.False(t, open)
		})
	}
}

// TestSyncBaseOfEmptyPages would otherwise go on for ever, or panic.
func TestSyncBaseOfEmptyPages(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	cluster.Nth("Range", 2, func(call *fakeetcd.Call) {
		call.Answer(&pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 1}, More: true}, nil)
	})
	pages, errs := mirror.NewSyncer(c, "", 0).SyncBase(t.Context())
	keys, err := collect(pages, errs)
	require.ErrorContains(t, err, "more keys follow, and returned none")
	require.Empty(t, keys)
}

// TestAbandonedSyncBase ends the context of a base without a reader, when it can go
// no further.
func TestAbandonedSyncBase(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, "k", 100)
	const pagesAhead = 16
	cluster.On("Range", func(call *fakeetcd.Call) {
		resp, err := call.Execute()
		if r, ok := resp.(*pb.RangeResponse); ok && assert.NoError(t, err) && len(r.Kvs) > 0 {
			r.Kvs, r.More = r.Kvs[:1], true
		}
	})
	c.KV = &paged{KV: c.KV, left: math.MaxInt}
	_, err := c.Get(t.Context(), "k") // connected
	require.NoError(t, err)
	leaks := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	pages, errs := mirror.NewSyncer(c, "", 0).SyncBase(ctx)
	// One read before it, one for the revision, and one for the page that has no room.
	require.NoError(t, cluster.Wait(t.Context(), "Range", 2+pagesAhead+1))
	cancel()
	goleak.VerifyNone(t, leaks)
	keys, err := collect(pages, errs)
	require.Equal(t, context.Canceled, err, "whoever reads it after all learns that it is not complete")
	require.LessOrEqual(t, len(keys), pagesAhead)
}

func TestSyncBaseEndsWithTheContext(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, "k", 2000)
	c.KV = &paged{KV: c.KV, left: math.MaxInt}
	for name, at := range map[string]int{"no revision": 1, "first page": 2, "second page": 3} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cluster.Nth("Range", at, func(call *fakeetcd.Call) {
				cancel()
				_ = call.Hold(nil)
			})
			pages, errs := mirror.NewSyncer(c, "", 0).SyncBase(ctx)
			_, err := collect(pages, errs)
			require.Equal(t, context.Canceled, err)
		})
	}
}
