package namespace_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/namespace"
)

func TestGetStream(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	for i := range 100 {
		for _, prefix := range []string{"ns", "ns/", "ns0"} {
			clienttest.Put(t, cluster, fmt.Sprintf("%s%02d", prefix, i), "v")
		}
	}
	kv := namespace.NewKV(c, "ns/")
	for name, tt := range map[string]struct {
		key   string
		opts  []clientv3.OpOption
		first string
		n     int
	}{
		"all":      {"", []clientv3.OpOption{clientv3.WithPrefix()}, "00", 100},
		"prefix":   {"3", []clientv3.OpOption{clientv3.WithPrefix()}, "30", 10},
		"from key": {"30", []clientv3.OpOption{clientv3.WithFromKey()}, "30", 70},
		"range":    {"30", []clientv3.OpOption{clientv3.WithRange("50")}, "30", 20},
		"one":      {"42", nil, "42", 1},
		"limit":    {"", []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(33)}, "00", 33},
		"rev":      {"", []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithRev(61)}, "00", 20},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := kv.GetStream(t.Context(), tt.key, tt.opts...)
			require.NoError(t, err)
			got, err := clientv3.GetStreamToGetResponse(stream)
			require.NoError(t, err)
			want := clienttest.Get(t, kv, tt.key, tt.opts...)
			require.Len(t, got.Kvs, tt.n)
			require.Equal(t, tt.first, string(got.Kvs[0].Key))
			for i := range want.Kvs {
				require.Equal(t, string(want.Kvs[i].Key), string(got.Kvs[i].Key))
			}
			require.Equal(t, want.Count, got.Count)
			require.Equal(t, want.More, got.More)
			require.NotNil(t, got.Header)
		})
	}
}

func TestGetStreamErrors(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	kv := namespace.NewKV(c, "ns/")
	cluster.On("RangeStream", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
	stream, err := kv.GetStream(t.Context(), "k")
	require.NoError(t, err)
	_, err = clientv3.GetStreamToGetResponse(stream)
	require.Equal(t, rpctypes.ErrPermissionDenied, err)

	ctx := clienttest.Ended(t)
	stream, err = kv.GetStream(ctx, "k")
	require.Nil(t, stream)
	require.Equal(t, context.Canceled, err)

	_, err = kv.GetStream(t.Context(), "", clientv3.WithRange("z"))
	require.Equal(t, rpctypes.ErrEmptyKey, err)
}

func TestAbandonedGetStream(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	for i := range 200 {
		clienttest.Put(t, cluster, fmt.Sprintf("ns/%03d", i), "v")
	}
	whole, err := c.GetStream(t.Context(), "k") // connected
	require.NoError(t, err)
	_, err = clientv3.GetStreamToGetResponse(whole)
	require.NoError(t, err)
	leaks := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := namespace.NewKV(c, "ns/").GetStream(ctx, "", clientv3.WithPrefix())
	require.NoError(t, err)
	<-stream
	cancel()
	goleak.VerifyNone(t, leaks)
}

// streaming is a KV whose stream is the channel that the test made.
type streaming struct {
	clientv3.KV
	in clientv3.GetStreamChan
}

func (s streaming) GetStream(context.Context, string, ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	return s.in, nil
}

func chunk(key string) clientv3.RangeStreamResponse {
	return clientv3.RangeStreamResponse{RangeResponse: &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte("ns/" + key)}}}}
}

func lastChunk(key string) clientv3.RangeStreamResponse {
	last := chunk(key)
	last.Header, last.Count, last.More = &pb.ResponseHeader{Revision: 7}, 9, true
	return last
}

// failedChunk is the end of a stream with an error, which only clientv3 can make.
func failedChunk(t *testing.T, c *clientv3.Client) clientv3.RangeStreamResponse {
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.GetStream(ctx, "k")
	require.NoError(t, err)
	cancel()
	last := <-stream
	require.Equal(t, context.Canceled, last.Err())
	return last
}

// TestGetStreamThatEndsUnread ends the context of a stream of which nothing has been
// read yet. A later reader must find all of it or an error, never a part.
func TestGetStreamThatEndsUnread(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	cluster.On("RangeStream", func(call *fakeetcd.Call) { _ = call.Hold(nil) })
	failed := failedChunk(t, c)
	for name, tt := range map[string]struct {
		chunks []clientv3.RangeStreamResponse
		err    error
	}{
		"complete":             {[]clientv3.RangeStreamResponse{chunk("a"), chunk("b"), chunk("c"), lastChunk("d")}, nil},
		"broken off":           {[]clientv3.RangeStreamResponse{chunk("a"), chunk("b"), chunk("c"), failed}, context.Canceled},
		"error right after":    {[]clientv3.RangeStreamResponse{chunk("a"), failed}, context.Canceled},
		"chunks past an error": {[]clientv3.RangeStreamResponse{failed, chunk("a"), chunk("b")}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := make(chan clientv3.RangeStreamResponse, len(tt.chunks))
				for _, part := range tt.chunks {
					in <- part
				}
				close(in)
				ctx, cancel := context.WithCancel(t.Context())
				stream, err := namespace.NewKV(streaming{in: in}, "ns/").GetStream(ctx, "k")
				require.NoError(t, err)
				synctest.Wait()
				cancel()
				synctest.Wait() // the goroutine has ended, or the test's end says so
				resp, err := clientv3.GetStreamToGetResponse(stream)
				require.Equal(t, tt.err, err)
				if tt.err != nil {
					return
				}
				var keys []string
				for _, kv := range resp.Kvs {
					keys = append(keys, string(kv.Key))
				}
				require.Equal(t, []string{"a", "b", "c", "d"}, keys)
				require.EqualValues(t, 7, resp.Header.Revision)
				require.EqualValues(t, 9, resp.Count)
				require.True(t, resp.More)
			})
		})
	}
}

func TestTimeToLive(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	granted, err := c.Grant(t.Context(), 60)
	require.NoError(t, err)
	l := namespace.NewLease(c, "ns/")
	keys := func() []string {
		resp, err := l.TimeToLive(t.Context(), granted.ID, clientv3.WithAttachedKeys())
		require.NoError(t, err)
		require.Equal(t, granted.ID, resp.ID)
		require.EqualValues(t, 60, resp.GrantedTTL)
		require.NotNil(t, resp.ResponseHeader)
		var names []string
		for _, key := range resp.Keys {
			names = append(names, string(key))
		}
		return names
	}
	require.Empty(t, keys())
	for _, key := range []string{"n", "ns", "ns/", "ns0", "other"} {
		_, err := c.Put(t.Context(), key, "v", clientv3.WithLease(granted.ID))
		require.NoError(t, err)
	}
	require.Empty(t, keys(), "the key that equals the prefix has no name in the namespace")
	for _, key := range []string{"a", "ns/b"} {
		_, err := namespace.NewKV(c, "ns/").Put(t.Context(), key, "v", clientv3.WithLease(granted.ID))
		require.NoError(t, err)
	}
	require.ElementsMatch(t, []string{"a", "ns/b"}, keys())

	resp, err := l.TimeToLive(t.Context(), granted.ID)
	require.NoError(t, err)
	require.Nil(t, resp.Keys, "not asked for")

	leases, err := l.Leases(t.Context())
	require.NoError(t, err)
	require.Equal(t, []clientv3.LeaseStatus{{ID: granted.ID}}, leases.Leases)
	_, err = l.Revoke(t.Context(), granted.ID)
	require.NoError(t, err)
	require.Nil(t, cluster.Get("other"))
	resp, err = l.TimeToLive(t.Context(), granted.ID, clientv3.WithAttachedKeys())
	require.NoError(t, err)
	require.EqualValues(t, -1, resp.TTL)
}

// sharingLease is a Lease that gives the same response to all callers.
type sharingLease struct {
	clientv3.Lease
	resp *clientv3.LeaseTimeToLiveResponse
	err  error
}

func (s sharingLease) TimeToLive(context.Context, clientv3.LeaseID, ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return s.resp, s.err
}

func TestTimeToLiveSharesNothing(t *testing.T) {
	shared := &clientv3.LeaseTimeToLiveResponse{ID: 1, Keys: [][]byte{[]byte("ns/ns/k"), []byte("x")}}
	l := namespace.NewLease(sharingLease{resp: shared}, "ns/")
	for range 2 {
		resp, err := l.TimeToLive(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, [][]byte{[]byte("ns/k")}, resp.Keys)
	}
	require.Len(t, shared.Keys, 2)

	l = namespace.NewLease(sharingLease{err: rpctypes.ErrPermissionDenied}, "ns/")
	resp, err := l.TimeToLive(t.Context(), 1)
	require.Nil(t, resp)
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
}
