package optxn_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

// TestOver makes a call of each method, which executes one operation and returns its response or its error.
func TestOver(t *testing.T) {
	_, client := clienttest.StartClient(t, 1)
	ctx := t.Context()
	var op clientv3.Op
	kv := optxn.Over(client, func(ctx context.Context, o clientv3.Op) (clientv3.OpResponse, error) {
		op = o
		return client.Do(ctx, o)
	})

	_, err := kv.Put(ctx, "k", "1")
	require.NoError(t, err)
	put := clienttest.Must(kv.Put(ctx, "k", "2", clientv3.WithPrevKV()))
	require.Equal(t, "1", string(put.PrevKv.Value))
	require.True(t, op.IsPut())
	get := clienttest.Must(kv.Get(ctx, "k", clientv3.WithKeysOnly()))
	require.Len(t, get.Kvs, 1)
	require.True(t, op.IsGet() && op.IsKeysOnly())
	del := clienttest.Must(kv.Delete(ctx, "a", clientv3.WithRange("z")))
	require.EqualValues(t, 1, del.Deleted)
	require.True(t, op.IsDelete())
	resp, err := kv.Do(ctx, clientv3.OpGet("k"))
	require.NoError(t, err)
	require.Empty(t, resp.Get().Kvs)

	put, err = kv.Put(ctx, "", "")
	require.Nil(t, put)
	require.Equal(t, rpctypes.ErrEmptyKey, err)
	get, err = kv.Get(ctx, "")
	require.Nil(t, get)
	require.Equal(t, rpctypes.ErrEmptyKey, err)
	del, err = kv.Delete(ctx, "")
	require.Nil(t, del)
	require.Equal(t, rpctypes.ErrEmptyKey, err)
	txn, err := kv.Txn(ctx).Then(clientv3.OpGet("")).Commit()
	require.Nil(t, txn)
	require.Equal(t, rpctypes.ErrEmptyKey, err)
}

// TestTxn changes what a transaction was given before it is committed, and gives its parts in a wrong order.
func TestTxn(t *testing.T) {
	_, client := clienttest.StartClient(t, 1)
	var op clientv3.Op
	kv := optxn.Over(client, func(ctx context.Context, o clientv3.Op) (clientv3.OpResponse, error) {
		op = o
		return client.Do(ctx, o)
	})
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.Version("a"), "=", 0)}
	thenOps, elseOps := []clientv3.Op{clientv3.OpGet("b")}, []clientv3.Op{clientv3.OpPut("c", "v")}
	txn := kv.Txn(t.Context()).If(cmps...).Then(thenOps...).Else(elseOps...)
	cmps[0].WithKeyBytes([]byte("changed since"))
	thenOps[0], elseOps[0] = clientv3.OpGet("changed"), clientv3.OpGet("since")
	resp := clienttest.Must(txn.Commit())
	require.True(t, resp.Succeeded)
	cmps, thenOps, elseOps = op.Txn()
	require.Equal(t, "a", string(cmps[0].KeyBytes()))
	require.Equal(t, "b", string(thenOps[0].KeyBytes()))
	require.Equal(t, "c", string(elseOps[0].KeyBytes()))

	require.PanicsWithValue(t, "cannot call Then after Else!", func() { kv.Txn(t.Context()).Else().Then() })
	require.PanicsWithValue(t, "cannot call If twice!", func() { kv.Txn(t.Context()).If().If() })
	require.PanicsWithValue(t, "cannot call If after Then!", func() { kv.Txn(t.Context()).Then().If() })
}
