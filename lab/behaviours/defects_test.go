package behaviours_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers"
)

// answers has calls of a method answered with what becomes of the real answer.
func answers(method string, change func(proto.Message, error) (proto.Message, error)) func(*fakeetcd.Cluster) {
	return func(c *fakeetcd.Cluster) {
		c.On(method, func(call *fakeetcd.Call) { call.Answer(change(call.Execute())) })
	}
}

// TestDefectsAreFound compares a fake that has a defect with one that has none, by recorded behaviours of the official client,
// and runs rows on it with Quorate.
func TestDefectsAreFound(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		name, recorded, row string
		plant               func(*fakeetcd.Cluster)
	}{
		{"no defect", "KV: put", "", func(*fakeetcd.Cluster) {}},
		{"a value of another key", "KV: do", "KV: transactions of Kubernetes", answers("Range", func(resp proto.Message, err error) (proto.Message, error) {
			if r, ok := resp.(*pb.RangeResponse); ok && len(r.Kvs) > 0 {
				r.Kvs[0].Value = []byte("other")
			}
			return resp, err
		})},
		{"another text for an error", "KV: txn errors", "", answers("Txn", func(resp proto.Message, err error) (proto.Message, error) {
			if err != nil {
				err = status.Error(codes.InvalidArgument, "refused")
			}
			return resp, err
		})},
		{"an event that lacks the value before it", "", "watch: of Kubernetes", func(c *fakeetcd.Cluster) {
			c.On("Watch", func(call *fakeetcd.Call) {
				call.OnSend(func(resp proto.Message) bool {
					for _, e := range resp.(*pb.WatchResponse).Events {
						e.PrevKv = nil
					}
					return true
				})
				_, _ = call.Execute()
			})
		}},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			good, goodSite := startFake(t)
			bad, badSite := startFake(t)
			d.plant(bad)
			if d.recorded != "" {
				want, err := play(t.Context(), servers.Official, goodSite, d.recorded)
				require.NoError(t, err)
				require.Empty(t, want.Error)
				got, err := play(t.Context(), servers.Official, badSite, d.recorded)
				require.NoError(t, err)
				differing, _ := transcript.Compare("fake", nil, want.Entries, got.Entries)
				require.Equal(t, d.name != "no defect", got.Error != "" || len(differing) > 0, got.Error)
			}
			if d.row != "" {
				got, err := play(t.Context(), servers.Quorate, goodSite, d.row)
				require.NoError(t, err)
				require.Empty(t, got.Error)
				got, err = play(t.Context(), servers.Quorate, badSite, d.row)
				require.NoError(t, err)
				require.NotEmpty(t, got.Error)
			}
			require.NotZero(t, good.Revision())
		})
	}
}
