package clientv3_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	. "github.com/quorate/quorate/clientv3"
)

// TestMisplacedOptions gives every option to every builder. The panics are part of
// the API: programs and tests of etcd's own rely on them.
func TestMisplacedOptions(t *testing.T) {
	builders := map[string]func(...OpOption) Op{
		"get":    func(opts ...OpOption) Op { return OpGet("k", opts...) },
		"put":    func(opts ...OpOption) Op { return OpPut("k", "v", opts...) },
		"delete": func(opts ...OpOption) Op { return OpDelete("k", opts...) },
		"watch":  func(opts ...OpOption) Op { return OpWatch("k", opts...) },
	}
	const mod, create = "mod revision filter", "create revision filter"
	tests := []struct {
		option string
		opt    OpOption
		name   string   // what the panic calls it
		in     []string // the builders that panic
	}{
		{"WithLease", WithLease(1), "lease", []string{"delete", "watch"}},
		{"WithLimit", WithLimit(1), "limit", []string{"put", "delete", "watch"}},
		{"WithRev", WithRev(1), "revision", []string{"put", "delete"}},
		{"WithSort", WithSort(SortByValue, SortAscend), "sort", []string{"put", "delete", "watch"}},
		{"WithSort as stored", WithSort(SortByKey, SortAscend), "sort", []string{"put", "delete", "watch"}},
		{"WithPrefix", WithPrefix(), "range", []string{"put"}},
		{"WithRange", WithRange("z"), "range", []string{"put"}},
		{"WithFromKey", WithFromKey(), "range", []string{"put"}},
		{"WithSerializable", WithSerializable(), "serializable", []string{"put", "delete", "watch"}},
		{"WithKeysOnly", WithKeysOnly(), "", nil},
		{"WithCountOnly", WithCountOnly(), "countOnly", []string{"put", "delete", "watch"}},
		{"WithMinModRev", WithMinModRev(1), mod, []string{"put", "delete", "watch"}},
		{"WithMaxModRev", WithMaxModRev(1), mod, []string{"put", "delete", "watch"}},
		{"WithMinCreateRev", WithMinCreateRev(1), create, []string{"put", "delete", "watch"}},
		{"WithMaxCreateRev", WithMaxCreateRev(1), create, []string{"put", "delete", "watch"}},
		{"WithProgressNotify", WithProgressNotify(), "", nil},
		{"WithCreatedNotify", WithCreatedNotify(), "createdNotify", []string{"put", "delete"}},
		{"WithFilterPut", WithFilterPut(), "filter", []string{"put", "delete"}},
		{"WithFilterDelete", WithFilterDelete(), "filter", []string{"put", "delete"}},
		{"WithPrevKV", WithPrevKV(), "", nil},
		{"WithFragment", WithFragment(), "", nil},
		{"WithWatchBufLog", WithWatchBufLog(), "", nil},
		{"WithIgnoreValue", WithIgnoreValue(), "", nil},
		{"WithIgnoreLease", WithIgnoreLease(), "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.option, func(t *testing.T) {
			for name, build := range builders {
				if contains(tt.in, name) {
					require.PanicsWithValue(t, "unexpected "+tt.name+" in "+name, func() { build(tt.opt) })
				} else {
					require.NotPanics(t, func() { build(tt.opt) }, name)
				}
			}
		})
	}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

func TestFirstMisplacedOptionIsNamed(t *testing.T) {
	require.PanicsWithValue(t, "unexpected lease in delete",
		func() { OpDelete("k", WithLimit(1), WithLease(1)) })
	require.PanicsWithValue(t, "unexpected range in put",
		func() { OpPut("k", "v", WithRev(1), WithPrefix()) })
	require.PanicsWithValue(t, "unexpected limit in watch",
		func() { OpWatch("k", WithSerializable(), WithLimit(1)) })
}

func TestTwoRangesPanic(t *testing.T) {
	const both = "`WithPrefix` and `WithFromKey` cannot be set at the same time, choose one"
	require.PanicsWithValue(t, both, func() { OpGet("k", WithPrefix(), WithFromKey()) })
	require.PanicsWithValue(t, both, func() { OpGet("k", WithFromKey(), WithPrefix()) })
	require.PanicsWithValue(t, both, func() { OpDelete("k", WithPrefix(), WithFromKey(), WithLimit(1)) })
	require.NotPanics(t, func() { OpWatch("k", WithPrefix(), WithFromKey()) })
	require.NotPanics(t, func() { OpGet("k", WithPrefix(), WithRange("z")) })
}

func TestOpWithoutTypePanics(t *testing.T) {
	kv := (&recorder{}).kv()
	require.PanicsWithValue(t, "Unknown op", func() { _, _ = kv.Do(t.Context(), Op{}) })
	require.PanicsWithValue(t, "Unknown op", func() { _, _ = kv.Do(t.Context(), *NewOp()) })
	require.PanicsWithValue(t, "Unknown Op", func() { kv.Txn(t.Context()).Then(Op{}) })
	require.PanicsWithValue(t, "Unknown Op", func() {
		_, _ = kv.Do(t.Context(), OpTxn(nil, []Op{{}}, nil))
	})
}
