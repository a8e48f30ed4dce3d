package behaviours_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/etcd34"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// TestStreamsOfOldServers reads ranges page by page from a server that cannot stream them: they are what Get returns.
func TestStreamsOfOldServers(t *testing.T) {
	t.Parallel()
	cluster := labtest.Start(t, lab.Config{Members: 1, Binary: etcd34.Path(t)})
	c := labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	const keys = 300
	for i := range keys {
		_, err := c.Put(t.Context(), fmt.Sprintf("k%03d", i), "v")
		require.NoError(t, err)
	}
	reads := map[string][]clientv3.OpOption{
		"prefix":     {clientv3.WithPrefix()},
		"from key":   {clientv3.WithFromKey()},
		"range":      {clientv3.WithRange("k2")},
		"one key":    nil,
		"limit":      {clientv3.WithPrefix(), clientv3.WithLimit(keys - 1)},
		"revision":   {clientv3.WithPrefix(), clientv3.WithRev(200)},
		"keys only":  {clientv3.WithPrefix(), clientv3.WithKeysOnly()},
		"count only": {clientv3.WithPrefix(), clientv3.WithCountOnly()},
	}
	for name, opts := range reads {
		want, err := c.Get(t.Context(), "k", opts...)
		require.NoError(t, err, name)
		got, err := gather(c.GetStream(t.Context(), "k", append(opts, clientv3.WithPageFallback())...))
		require.NoError(t, err, name)
		if diff := cmp.Diff((*pb.RangeResponse)(want), (*pb.RangeResponse)(got), protocmp.Transform()); diff != "" {
			t.Errorf("%s: a stream differs from a get (-get +stream):\n%s", name, diff)
		}
	}
}

func gather(stream clientv3.GetStreamChan, err error) (*clientv3.GetResponse, error) {
	if err != nil {
		return nil, err
	}
	return clientv3.GetStreamToGetResponse(stream)
}
