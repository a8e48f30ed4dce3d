package clientv3_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
)

func TestOpRequests(t *testing.T) {
	first := func(opts []OpOption) Op { return OpGet("k", opts...) }
	top := func(target pb.RangeRequest_SortTarget, order pb.RangeRequest_SortOrder) *pb.RangeRequest {
		return &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Limit: 1, SortTarget: target, SortOrder: order}
	}
	tests := []struct {
		name string
		op   Op
		want proto.Message
	}{
		{"get", OpGet("k"), &pb.RangeRequest{Key: []byte("k")}},
		{"get of nothing", OpGet(""), &pb.RangeRequest{}},
		{"range", OpGet("k", WithRange("z")), &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("z")}},
		{"prefix", OpGet("k", WithPrefix()), &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}},
		{"prefix with carry", OpGet("k\xff", WithPrefix()), &pb.RangeRequest{Key: []byte("k\xff"), RangeEnd: []byte("l")}},
		{"prefix without end", OpGet("\xff\xff", WithPrefix()), &pb.RangeRequest{Key: []byte("\xff\xff"), RangeEnd: []byte{0}}},
		{"prefix of everything", OpGet("", WithPrefix()), &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}},
		{"from key", OpGet("k", WithFromKey()), &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte{0}}},
		{"from the first key", OpGet("", WithFromKey()), &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}},
		{"revision", OpGet("k", WithRev(7)), &pb.RangeRequest{Key: []byte("k"), Revision: 7}},
		{"limit", OpGet("k", WithLimit(7)), &pb.RangeRequest{Key: []byte("k"), Limit: 7}},
		{"serializable", OpGet("k", WithSerializable()), &pb.RangeRequest{Key: []byte("k"), Serializable: true}},
		{"keys only", OpGet("k", WithKeysOnly()), &pb.RangeRequest{Key: []byte("k"), KeysOnly: true}},
		{"count only", OpGet("k", WithCountOnly()), &pb.RangeRequest{Key: []byte("k"), CountOnly: true}},
		{"min mod", OpGet("k", WithMinModRev(7)), &pb.RangeRequest{Key: []byte("k"), MinModRevision: 7}},
		{"max mod", OpGet("k", WithMaxModRev(7)), &pb.RangeRequest{Key: []byte("k"), MaxModRevision: 7}},
		{"min create", OpGet("k", WithMinCreateRev(7)), &pb.RangeRequest{Key: []byte("k"), MinCreateRevision: 7}},
		{"max create", OpGet("k", WithMaxCreateRev(7)), &pb.RangeRequest{Key: []byte("k"), MaxCreateRevision: 7}},
		{
			"sort", OpGet("k", WithSort(SortByValue, SortDescend)),
			&pb.RangeRequest{Key: []byte("k"), SortTarget: pb.RangeRequest_VALUE, SortOrder: pb.RangeRequest_DESCEND},
		},
		{"sort as stored", OpGet("k", WithSort(SortByKey, SortAscend), WithLimit(9)), &pb.RangeRequest{Key: []byte("k"), Limit: 9}},
		{
			"sort by version ascending", OpGet("k", WithSort(SortByVersion, SortAscend)),
			&pb.RangeRequest{Key: []byte("k"), SortTarget: pb.RangeRequest_VERSION, SortOrder: pb.RangeRequest_ASCEND},
		},
		{"first created", first(WithFirstCreate()), top(pb.RangeRequest_CREATE, pb.RangeRequest_ASCEND)},
		{"last created", first(WithLastCreate()), top(pb.RangeRequest_CREATE, pb.RangeRequest_DESCEND)},
		{"first key", first(WithFirstKey()), top(pb.RangeRequest_KEY, pb.RangeRequest_NONE)},
		{"last key", first(WithLastKey()), top(pb.RangeRequest_KEY, pb.RangeRequest_DESCEND)},
		{"first revision", first(WithFirstRev()), top(pb.RangeRequest_MOD, pb.RangeRequest_ASCEND)},
		{"last revision", first(WithLastRev()), top(pb.RangeRequest_MOD, pb.RangeRequest_DESCEND)},
		{
			"watch", OpWatch("k", WithRev(7), WithPrefix(), WithFilterPut(), WithCreatedNotify()),
			&pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Revision: 7},
		},

		{"put", OpPut("k", "v"), &pb.PutRequest{Key: []byte("k"), Value: []byte("v")}},
		{"put with lease", OpPut("k", "v", WithLease(7)), &pb.PutRequest{Key: []byte("k"), Value: []byte("v"), Lease: 7}},
		{"put returning", OpPut("k", "v", WithPrevKV()), &pb.PutRequest{Key: []byte("k"), Value: []byte("v"), PrevKv: true}},
		{"put keeping the value", OpPut("k", "", WithIgnoreValue()), &pb.PutRequest{Key: []byte("k"), IgnoreValue: true}},
		{"put keeping the lease", OpPut("k", "v", WithIgnoreLease()), &pb.PutRequest{Key: []byte("k"), Value: []byte("v"), IgnoreLease: true}},

		{"delete", OpDelete("k"), &pb.DeleteRangeRequest{Key: []byte("k")}},
		{"delete prefix", OpDelete("k", WithPrefix()), &pb.DeleteRangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}},
		{"delete returning", OpDelete("k", WithPrevKV()), &pb.DeleteRangeRequest{Key: []byte("k"), PrevKv: true}},

		{"empty txn", OpTxn(nil, nil, nil), &pb.TxnRequest{}},
		{
			"txn", OpTxn([]Cmp{Compare(Version("k"), ">", 0)},
				[]Op{OpPut("k", "v"), OpDelete("d")},
				[]Op{OpGet("k"), OpTxn(nil, []Op{OpGet("n")}, nil)}),
			&pb.TxnRequest{
				Compare: []*pb.Compare{{
					Key: []byte("k"), Result: pb.Compare_GREATER, Target: pb.Compare_VERSION,
					TargetUnion: &pb.Compare_Version{Version: 0},
				}},
				Success: []*pb.RequestOp{
					{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k"), Value: []byte("v")}}},
					{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("d")}}},
				},
				Failure: []*pb.RequestOp{
					{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("k")}}},
					{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: []*pb.RequestOp{
						{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("n")}}},
					}}}},
				},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{}
			_, err := r.kv().Do(t.Context(), tt.op)
			require.NoError(t, err)
			requireProto(t, tt.want, r.only(t).req)
		})
	}
}

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

func TestGetPrefixRangeEnd(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "\x00", "a": "b", "ab": "ac", "a\xff": "b", "\xff": "\x00", "\xff\xff": "\x00", "a\xff\xff": "b", "\x00": "\x01",
	} {
		require.Equal(t, want, GetPrefixRangeEnd(prefix), "%q", prefix)
	}
}

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
				if slices.Contains(tt.in, name) {
					require.PanicsWithValue(t, "unexpected "+tt.name+" in "+name, func() { build(tt.opt) })
				} else {
					require.NotPanics(t, func() { build(tt.opt) }, name)
				}
			}
		})
	}
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
