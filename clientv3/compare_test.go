package clientv3_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	. "github.com/quorate/quorate/clientv3"
)

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		cmp  Cmp
		want *pb.Compare
	}{
		{Compare(Value("k"), "=", "v"), &pb.Compare{Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte("v")}}},
		{Compare(Version("k"), "!=", 3), &pb.Compare{Target: pb.Compare_VERSION, Result: pb.Compare_NOT_EQUAL, TargetUnion: &pb.Compare_Version{Version: 3}}},
		{Compare(CreateRevision("k"), ">", int64(3)), &pb.Compare{Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 3}}},
		{Compare(ModRevision("k"), "<", 3), &pb.Compare{Target: pb.Compare_MOD, Result: pb.Compare_LESS, TargetUnion: &pb.Compare_ModRevision{ModRevision: 3}}},
		{Compare(LeaseValue("k"), "=", LeaseID(3)), &pb.Compare{Target: pb.Compare_LEASE, TargetUnion: &pb.Compare_Lease{Lease: 3}}},
		{Compare(LeaseValue("k"), "=", 3), &pb.Compare{Target: pb.Compare_LEASE, TargetUnion: &pb.Compare_Lease{Lease: 3}}},
		{Compare(Version("k"), "=", 0).WithPrefix(), &pb.Compare{Target: pb.Compare_VERSION, RangeEnd: []byte("l"), TargetUnion: &pb.Compare_Version{}}},
	} {
		tt.want.Key = []byte("k")
		requireProto(t, tt.want, tt.cmp.GetCompare())
		clone := tt.cmp.Clone()
		requireProto(t, tt.want, clone.GetCompare())
	}
}

func TestComparePanics(t *testing.T) {
	for _, tt := range []struct {
		want   string
		cmp    Cmp
		result string
		v      any
	}{
		{"Unknown result op", Value("k"), "==", "v"},
		{"bad compare value", Value("k"), "=", []byte("v")},
		{"bad value", Version("k"), "=", "1"},
		{"bad value", LeaseValue("k"), "=", int32(1)},
		{"Unknown compare type", FromCompare(&pb.Compare{Target: 99}), "=", 1},
	} {
		require.PanicsWithValue(t, tt.want, func() { Compare(tt.cmp, tt.result, tt.v) })
	}
}

// TestCmpIsAValue changes a comparison in every possible way, and checks that earlier copies are
// unchanged.
func TestCmpIsAValue(t *testing.T) {
	ruin := func(c *Cmp) {
		m := c.GetCompare()
		copy(m.Key, "X")
		copy(m.RangeEnd, "X")
		if v, ok := m.TargetUnion.(*pb.Compare_Value); ok {
			copy(v.Value, "X")
			v.Value = []byte("changed")
		}
		m.Result, m.Target = pb.Compare_LESS, pb.Compare_LEASE
		c.WithKeyBytes([]byte("changed"))
	}
	derive := map[string]func(c Cmp) Cmp{
		"Clone":       func(c Cmp) Cmp { return c.Clone() },
		"FromCompare": func(c Cmp) Cmp { return FromCompare(c.GetCompare()) },
		"Compare":     func(c Cmp) Cmp { return Compare(c, "=", "v") },
		"WithRange":   func(c Cmp) Cmp { return c.WithRange("l") },
		"WithPrefix":  func(c Cmp) Cmp { return c.WithPrefix() },
		"OpTxn": func(c Cmp) Cmp {
			cmps, _, _ := OpTxn([]Cmp{c}, nil, nil).Txn()
			return cmps[0]
		},
	}
	build := func() Cmp { return Compare(Value("k"), "=", "v").WithRange("l") }
	want := build()
	for name, derived := range derive {
		t.Run(name, func(t *testing.T) {
			original := build()
			made := derived(original)
			ruin(&original)
			requireProto(t, want.GetCompare(), made.GetCompare())

			original = build()
			made = derived(original)
			ruin(&made)
			requireProto(t, want.GetCompare(), original.GetCompare())
		})
	}
}
