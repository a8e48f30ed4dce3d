package clientv3util_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientv3util"
	"github.com/quorate/quorate/etcdtest"
)

func TestKeyExistsAndMissing(t *testing.T) {
	client := etcdtest.Fake(t).Client

	for _, key := range []string{"once", "twice", "twice", "empty", "deleted", "again"} {
		value := key
		if key == "empty" {
			value = ""
		}
		_, err := client.Put(t.Context(), key, value)
		require.NoError(t, err)
	}
	for _, key := range []string{"deleted", "again"} {
		_, err := client.Delete(t.Context(), key)
		require.NoError(t, err)
	}
	_, err := client.Put(t.Context(), "again", "")
	require.NoError(t, err)

	for key, exists := range map[string]bool{
		"once": true, "twice": true, "empty": true, "again": true,
		"deleted": false, "never": false, "onc": false, "oncemore": false,
	} {
		for name, tt := range map[string]struct {
			cmp  clientv3.Cmp
			want bool
		}{
			"exists":  {clientv3util.KeyExists(key), exists},
			"missing": {clientv3util.KeyMissing(key), !exists},
		} {
			resp, err := client.Txn(t.Context()).If(tt.cmp).Commit()
			require.NoError(t, err)
			assert.Equal(t, tt.want, resp.Succeeded, "%q %s", key, name)
		}
	}
}
