package ordering_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/ordering"
)

func putKeys(t *testing.T, cluster *fakeetcd.Cluster, n int) {
	t.Helper()
	for i := range n {
		clienttest.Put(t, cluster, fmt.Sprintf("k%03d", i), "v")
	}
}

func stream(ctx context.Context, kv clientv3.KV, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	chunks, err := kv.GetStream(ctx, "k", append(opts, clientv3.WithPrefix())...)
	if err != nil {
		return nil, err
	}
	return clientv3.GetStreamToGetResponse(chunks)
}

func TestGetStream(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, 100)
	for name, tt := range map[string]struct {
		opts []clientv3.OpOption
		keys int
		more bool
	}{
		"all":          {nil, 100, false},
		"serializable": {[]clientv3.OpOption{clientv3.WithSerializable()}, 100, false},
		"limit":        {[]clientv3.OpOption{clientv3.WithLimit(33)}, 33, true},
		"few":          {[]clientv3.OpOption{clientv3.WithLimit(5)}, 5, true},
		"count":        {[]clientv3.OpOption{clientv3.WithCountOnly()}, 0, false},
		"revision":     {[]clientv3.OpOption{clientv3.WithRev(51)}, 50, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			kv := ordering.NewKV(c, r.record)
			want := clienttest.Get(t, kv, "k", append(tt.opts, clientv3.WithPrefix())...)
			got := clienttest.Must(stream(t.Context(), kv, tt.opts...))
			require.Len(t, got.Kvs, tt.keys)
			require.Equal(t, tt.more, got.More)
			require.Equal(t, want.Count, got.Count)
			require.Equal(t, want.Header.Revision, got.Header.Revision)
			require.Empty(t, r.violations)
		})
	}
}

// TestGetStreamReturnsItsRevision has the store move on while the range is read.
func TestGetStreamReturnsItsRevision(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, 100)
	cluster.On("RangeStream", func(*fakeetcd.Call) { putKeys(t, cluster, 101) })
	got := clienttest.Must(stream(t.Context(), ordering.NewKV(c, new(recorder).record)))
	require.Len(t, got.Kvs, 100)
	require.EqualValues(t, 101, got.Header.Revision, "watches from 102 on miss nothing")
}

// TestGetStreamOfAStaleMember is about the revision that is read at.
func TestGetStreamOfAStaleMember(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, 20)
	r := &recorder{retries: 2}
	kv := ordering.NewKV(c, r.record)
	clienttest.Get(t, kv, "k")
	stale := func(call *fakeetcd.Call) {
		resp, err := call.Execute()
		assert.NoError(t, err)
		resp.(*pb.RangeResponse).Header.Revision = 15
	}
	cluster.Once("Range", stale)
	cluster.Once("Range", stale)
	got := clienttest.Must(stream(t.Context(), kv, clientv3.WithSerializable()))
	require.Equal(t, []violation{{15, 21}, {15, 21}}, r.violations)
	require.EqualValues(t, 21, got.Header.Revision)
	for _, call := range cluster.Calls("Range")[1:] {
		require.True(t, call.Request().(*pb.RangeRequest).Serializable)
	}
	for _, call := range cluster.Calls("RangeStream") {
		require.EqualValues(t, 21, call.Request().(*pb.RangeRequest).Revision)
	}

	r.violations, r.retries = nil, 0
	cluster.Once("Range", stale)
	chunks, err := kv.GetStream(t.Context(), "k", clientv3.WithSerializable())
	require.Nil(t, chunks)
	require.Equal(t, errTooOld, err)

	// Only a store that has gone back answers a linearizable read so.
	cluster.Once("Range", stale)
	_, err = kv.GetStream(t.Context(), "k")
	var changed *clientv3.ClusterChangedError
	require.ErrorAs(t, err, &changed)
}

// lagging makes the next streams meet members that have not reached their revision.
func lagging(cluster *fakeetcd.Cluster, n int) {
	for range n {
		cluster.Once("RangeStream", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCFutureRev) })
	}
}

func TestGetStreamOfALaggingMember(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, 20)
	r := &recorder{retries: 3}
	kv := ordering.NewKV(c, r.record)

	for name, opts := range map[string][]clientv3.OpOption{
		"latest": nil, "revision": {clientv3.WithRev(21)},
	} {
		r.violations = nil
		lagging(cluster, 3)
		got, err := stream(t.Context(), kv, append(opts, clientv3.WithSerializable())...)
		require.NoError(t, err, name)
		require.Len(t, got.Kvs, 20, name)
		require.Equal(t, []violation{{0, 21}, {0, 21}, {0, 21}}, r.violations, name)
	}

	lagging(cluster, 1)
	_, err := stream(t.Context(), kv)
	require.Equal(t, errTooOld, err, "no more retries")

	r.violations = nil
	_, err = stream(t.Context(), kv, clientv3.WithRev(22))
	require.Equal(t, rpctypes.ErrFutureRev, err, "no member has that one")
	require.Empty(t, r.violations)
}

func TestGetStreamEndsWithTheContext(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, 20)
	kv := ordering.NewKV(c, func(clientv3.Op, clientv3.OpResponse, int64) error { return nil })
	cluster.On("RangeStream", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCFutureRev) })
	ctx, cancel := context.WithCancel(t.Context())
	chunks, err := kv.GetStream(ctx, "k", clientv3.WithPrefix())
	require.NoError(t, err)
	require.NoError(t, cluster.Wait(t.Context(), "RangeStream", 5))
	cancel()
	_, err = clientv3.GetStreamToGetResponse(chunks)
	require.Equal(t, context.Canceled, err)
}

func TestGetStreamErrors(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, 20)
	kv := ordering.NewKV(c, new(recorder).record)
	_, err := kv.GetStream(t.Context(), "")
	require.Equal(t, rpctypes.ErrEmptyKey, err)
	_, err = stream(t.Context(), kv, clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend))
	require.Equal(t, codes.Unimplemented, status.Code(err))
	cluster.Once("RangeStream", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
	_, err = stream(t.Context(), kv)
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
}

// paged is a KV without GetStream.
type paged struct{ clientv3.KV }

func (paged) GetStream(context.Context, string, ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}

func TestGetStreamInPages(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, 250)
	kv := ordering.NewKV(paged{c}, new(recorder).record)
	_, err := stream(t.Context(), kv)
	require.Equal(t, codes.Unimplemented, status.Code(err))
	got := clienttest.Must(stream(t.Context(), kv, clientv3.WithPageFallback()))
	require.Len(t, got.Kvs, 250)
	require.EqualValues(t, 250, got.Count)
	require.EqualValues(t, 251, got.Header.Revision)
}
