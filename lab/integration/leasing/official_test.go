package leasing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3"
	officialleasing "go.etcd.io/etcd/client/v3/leasing"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// A program of the official client owns keys that one of Quorate writes, and the other
// way round: they share the leasing keys.
func TestWithOfficialClient(t *testing.T) {
	prefix := newPrefix(t)
	ours, closeOurs, err := leasing.NewKV(labtest.Client(t, clientv3.Config{Endpoints: []string{endpoint}}), prefix+"leasing/")
	require.NoError(t, err)
	defer closeOurs()
	c := labtest.Official(t, endpoint)
	theirs, closeTheirs, err := officialleasing.NewKV(c, prefix+"leasing/")
	require.NoError(t, err)
	defer closeTheirs()
	ctx := labtest.Within(t, labtest.Patience)

	for _, key := range []string{"a", "b"} {
		_, err := ours.Get(ctx, prefix+key)
		require.NoError(t, err)
	}
	for _, key := range []string{"y", "z"} {
		_, err := theirs.Get(ctx, prefix+key)
		require.NoError(t, err)
	}
	owned, err := c.Get(ctx, prefix+"leasing/", official.WithPrefix(), official.WithCountOnly())
	require.NoError(t, err)
	require.Equal(t, int64(4), owned.Count)

	_, err = theirs.Put(ctx, prefix+"a", "by theirs")
	require.NoError(t, err)
	_, err = theirs.Txn(ctx).Then(official.OpPut(prefix+"b", "by theirs")).Commit()
	require.NoError(t, err)
	_, err = ours.Put(ctx, prefix+"y", "by ours")
	require.NoError(t, err)
	_, err = ours.Delete(ctx, prefix+"z")
	require.NoError(t, err)
	for key, want := range map[string]string{"a": "by theirs", "b": "by theirs", "y": "by ours", "z": ""} {
		mine, err := ours.Get(ctx, prefix+key)
		require.NoError(t, err)
		other, err := theirs.Get(ctx, prefix+key)
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, mine.Kvs)
			require.Empty(t, other.Kvs)
			continue
		}
		require.Equal(t, want, string(mine.Kvs[0].Value))
		require.Equal(t, want, string(other.Kvs[0].Value))
	}
}
