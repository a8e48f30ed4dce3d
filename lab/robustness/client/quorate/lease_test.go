package quorate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/etcdtest"
)

func TestLessorPassesOnWhatTheClientClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late = time.Second
		etcd := etcdtest.Fake(t)
		client := etcd.Client
		etcd.Fake.On("LeaseKeepAlive", func(call *fakeetcd.Call) {
			call.OnSend(func(proto.Message) bool {
				time.Sleep(late)
				return true
			})
			_, _ = call.Execute()
		})

		lessor := Client{client}
		id, ttl, err := lessor.Grant(t.Context(), 12*time.Second)
		require.NoError(t, err)
		assert.Equal(t, 12*time.Second, ttl)
		require.NoError(t, lessor.Attach(t.Context(), id, "k", "v"))
		held, err := client.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Len(t, held.Kvs, 1)
		assert.Equal(t, id, held.Kvs[0].Lease)

		answers := 0
		for until, err := range lessor.KeepAlive(t.Context(), id) {
			if answers == 3 {
				require.Equal(t, rpctypes.ErrLeaseNotFound, err, "why there are no more")
				break
			}
			require.NoError(t, err)
			require.Equal(t, 12*time.Second-late, time.Until(until), "counted from the sending")
			if answers++; answers == 3 {
				_, err := client.Revoke(t.Context(), clientv3.LeaseID(id))
				require.NoError(t, err)
			}
		}
		assert.Equal(t, 3, answers)
		held, err = client.Get(t.Context(), "k")
		require.NoError(t, err)
		assert.Empty(t, held.Kvs)
	})
}
