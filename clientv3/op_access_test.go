package clientv3_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	. "github.com/quorate/quorate/clientv3"
)

func TestOpAccessors(t *testing.T) {
	zero := OpGet("k")
	tests := []struct {
		name string
		op   Op
		get  func(Op) any
		want any
	}{
		{"IsSerializable", OpGet("k", WithSerializable()), func(op Op) any { return op.IsSerializable() }, true},
		{"IsKeysOnly", OpGet("k", WithKeysOnly()), func(op Op) any { return op.IsKeysOnly() }, true},
		{"IsCountOnly", OpGet("k", WithCountOnly()), func(op Op) any { return op.IsCountOnly() }, true},
		{"IsSortSet", OpGet("k", WithSort(SortByKey, SortAscend)), func(op Op) any { return op.IsSortSet() }, true},
		{"IsOptsWithPrefix", OpGet("k", WithPrefix()), func(op Op) any { return op.IsOptsWithPrefix() }, true},
		{"IsOptsWithFromKey", OpGet("k", WithFromKey()), func(op Op) any { return op.IsOptsWithFromKey() }, true},
		{"IsPrevKV", OpGet("k", WithPrevKV()), func(op Op) any { return op.IsPrevKV() }, true},
		{"IsFragment", OpWatch("k", WithFragment()), func(op Op) any { return op.IsFragment() }, true},
		{"IsProgressNotify", OpWatch("k", WithProgressNotify()), func(op Op) any { return op.IsProgressNotify() }, true},
		{"IsCreatedNotify", OpWatch("k", WithCreatedNotify()), func(op Op) any { return op.IsCreatedNotify() }, true},
		{"IsFilterPut", OpWatch("k", WithFilterPut()), func(op Op) any { return op.IsFilterPut() }, true},
		{"IsFilterDelete", OpWatch("k", WithFilterDelete()), func(op Op) any { return op.IsFilterDelete() }, true},
		{"Rev", OpGet("k", WithRev(7)), func(op Op) any { return op.Rev() }, int64(7)},
		{"Limit", OpGet("k", WithLimit(7)), func(op Op) any { return op.Limit() }, int64(7)},
		{"MinModRev", OpGet("k", WithMinModRev(7)), func(op Op) any { return op.MinModRev() }, int64(7)},
		{"MaxModRev", OpGet("k", WithMaxModRev(7)), func(op Op) any { return op.MaxModRev() }, int64(7)},
		{"MinCreateRev", OpGet("k", WithMinCreateRev(7)), func(op Op) any { return op.MinCreateRev() }, int64(7)},
		{"MaxCreateRev", OpGet("k", WithMaxCreateRev(7)), func(op Op) any { return op.MaxCreateRev() }, int64(7)},
		{"RangeBytes", OpGet("k", WithRange("z")), func(op Op) any { return string(op.RangeBytes()) }, "z"},
		{"ValueBytes", OpPut("k", "v"), func(op Op) any { return string(op.ValueBytes()) }, "v"},
		{"IsPut", OpPut("k", "v"), func(op Op) any { return op.IsPut() }, true},
		{"IsDelete", OpDelete("k"), func(op Op) any { return op.IsDelete() }, true},
		{"IsTxn", OpTxn(nil, nil, nil), func(op Op) any { return op.IsTxn() }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, tt.get(tt.op))
			require.Zero(t, tt.get(zero), "a plain get")
		})
	}
	require.True(t, zero.IsGet())
	require.True(t, OpWatch("k").IsGet())
	require.False(t, OpPut("k", "v").IsGet())
	require.Nil(t, zero.RangeBytes())
	// Options that only a watch engine reads must be accepted wherever it passes them.
	require.NotPanics(t, func() { OpWatch("k", WithWatchBufLog()) })
}

func TestOpMutators(t *testing.T) {
	op := OpPut("k", "v")
	op.WithKeyBytes([]byte("k2"))
	op.WithValueBytes([]byte("v2"))
	op.WithRangeBytes([]byte("z"))
	require.Equal(t, "k2", string(op.KeyBytes()))
	require.Equal(t, "v2", string(op.ValueBytes()))
	require.Equal(t, "z", string(op.RangeBytes()))
}

func TestOpTxnParts(t *testing.T) {
	cmps, then, els := OpTxn([]Cmp{Value("k")}, []Op{OpGet("t")}, []Op{OpGet("e1"), OpGet("e2")}).Txn()
	require.Len(t, cmps, 1)
	require.Equal(t, "k", string(cmps[0].KeyBytes()))
	require.Len(t, then, 1)
	require.Equal(t, "t", string(then[0].KeyBytes()))
	require.Len(t, els, 2)
	require.Equal(t, "e2", string(els[1].KeyBytes()))
}

func TestNewOp(t *testing.T) {
	op := NewOp()
	require.Equal(t, []byte{}, op.KeyBytes())
	require.False(t, op.IsGet() || op.IsPut() || op.IsDelete() || op.IsTxn())
}

func TestIsSortOptionValid(t *testing.T) {
	require.True(t, OpGet("k").IsSortOptionValid())
	for target := SortByKey; target <= SortByValue; target++ {
		for order := SortNone; order <= SortDescend; order++ {
			require.True(t, OpGet("k", WithSort(target, order)).IsSortOptionValid(), "%d %d", target, order)
		}
	}
	require.False(t, OpGet("k", WithSort(SortByValue+1, SortAscend)).IsSortOptionValid())
	require.False(t, OpGet("k", WithSort(SortByValue, SortDescend+1)).IsSortOptionValid())
	require.False(t, OpGet("k", WithSort(-1, SortAscend)).IsSortOptionValid())
}

func TestIsOptsWith(t *testing.T) {
	require.True(t, IsOptsWithPrefix([]OpOption{WithLimit(1), WithPrefix()}))
	require.False(t, IsOptsWithPrefix([]OpOption{WithLimit(1), WithFromKey()}))
	require.False(t, IsOptsWithPrefix(nil))
	require.True(t, IsOptsWithFromKey([]OpOption{WithFromKey()}))
	require.False(t, IsOptsWithFromKey([]OpOption{WithPrefix()}))
}
