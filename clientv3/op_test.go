package clientv3_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3"
)

// lab/behaviours compares operations, their options and comparisons with the official client's: what they panic with, and
// what a server answers.

func TestOptionsAreAppliedOnce(t *testing.T) {
	applied := 0
	count := func(*Op) { applied++ }
	kv := (&recorder{}).kv()
	calls := map[string]func() error{
		"get":    func() error { _, err := kv.Get(t.Context(), "k", WithPrefix(), count); return err },
		"put":    func() error { _, err := kv.Put(t.Context(), "k", "v", count); return err },
		"delete": func() error { _, err := kv.Delete(t.Context(), "k", WithFromKey(), count); return err },
	}
	for name, do := range calls {
		applied = 0
		require.NoError(t, do())
		require.Equal(t, 1, applied, name)
	}
}

func TestInvalidSortIsNotSent(t *testing.T) {
	r := &recorder{}
	_, err := r.kv().Get(t.Context(), "k", WithSort(99, SortAscend))
	require.Equal(t, rpctypes.ErrInvalidSortOption, err)
	_, err = r.kv().Do(t.Context(), OpGet("k", WithSort(SortByKey, 99)))
	require.Equal(t, rpctypes.ErrInvalidSortOption, err)
	require.Empty(t, r.calls)
}

// What a transaction is given is its own from then on.
func TestComparisonsOfATxnAreCopied(t *testing.T) {
	cmp := Compare(Value("k"), "=", "v")
	change := func() {
		copy(cmp.KeyBytes(), "x")
		cmp.WithValueBytes([]byte("other"))
	}
	want := cmp.Clone()
	r := &recorder{}
	txn := r.kv().Txn(t.Context()).If(cmp)
	op := OpTxn([]Cmp{cmp}, nil, nil)
	change()
	_, err := txn.Commit()
	require.NoError(t, err)
	_, err = r.kv().Do(t.Context(), op)
	require.NoError(t, err)
	for _, sent := range r.calls {
		requireProto(t, want.GetCompare(), sent.(*pb.TxnRequest).Compare[0])
	}
}
