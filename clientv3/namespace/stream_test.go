package namespace_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/namespace"
)

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
	stream := clienttest.Must(c.GetStream(ctx, "k"))
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
				stream := clienttest.Must(namespace.NewKV(streaming{in: in}, "ns/").GetStream(ctx, "k"))
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
