package clientv3_test

import (
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
			requireProto(t, tt.want, r.only(t))
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

// lab/behaviours gives every option to every builder, beside the official client.
func TestMisplacedOptions(t *testing.T) {
	const both = "`WithPrefix` and `WithFromKey` cannot be set at the same time, choose one"
	for want, build := range map[string]func(){
		"unexpected lease in delete": func() { OpDelete("k", WithLimit(1), WithLease(1)) },
		"unexpected range in put":    func() { OpPut("k", "v", WithRev(1), WithPrefix()) },
		"unexpected limit in watch":  func() { OpWatch("k", WithSerializable(), WithLimit(1)) },
		both:                         func() { OpGet("k", WithPrefix(), WithFromKey()) },
	} {
		require.PanicsWithValue(t, want, build)
	}
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
