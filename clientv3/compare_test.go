package clientv3_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	. "github.com/quorate/quorate/clientv3"
)

func TestCompare(t *testing.T) {
	tests := []struct {
		name string
		cmp  Cmp
		want *pb.Compare
	}{
		{
			"value", Compare(Value("k"), "=", "v"),
			&pb.Compare{Target: pb.Compare_VALUE, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_Value{Value: []byte("v")}},
		},
		{
			"version", Compare(Version("k"), "!=", 3),
			&pb.Compare{Target: pb.Compare_VERSION, Result: pb.Compare_NOT_EQUAL, TargetUnion: &pb.Compare_Version{Version: 3}},
		},
		{
			"create", Compare(CreateRevision("k"), ">", int64(3)),
			&pb.Compare{Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 3}},
		},
		{
			"mod", Compare(ModRevision("k"), "<", 3),
			&pb.Compare{Target: pb.Compare_MOD, Result: pb.Compare_LESS, TargetUnion: &pb.Compare_ModRevision{ModRevision: 3}},
		},
		{
			"lease", Compare(LeaseValue("k"), "=", LeaseID(3)),
			&pb.Compare{Target: pb.Compare_LEASE, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_Lease{Lease: 3}},
		},
		{
			"lease by number", Compare(LeaseValue("k"), "=", 3),
			&pb.Compare{Target: pb.Compare_LEASE, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_Lease{Lease: 3}},
		},
		{
			"range", Compare(Version("k"), "=", 0).WithRange("z"),
			&pb.Compare{Target: pb.Compare_VERSION, RangeEnd: []byte("z"), TargetUnion: &pb.Compare_Version{}},
		},
		{
			"prefix", Compare(Version("k"), "=", 0).WithPrefix(),
			&pb.Compare{Target: pb.Compare_VERSION, RangeEnd: []byte("l"), TargetUnion: &pb.Compare_Version{}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Key = []byte("k")
			requireProto(t, tt.want, tt.cmp.GetCompare())
			clone := tt.cmp.Clone()
			requireProto(t, tt.want, clone.GetCompare())
			again := FromCompare(tt.want)
			requireProto(t, tt.want, again.GetCompare())
		})
	}
}

func TestComparePanics(t *testing.T) {
	unknown := FromCompare(&pb.Compare{Target: 99})
	tests := []struct {
		want string
		call func()
	}{
		{"Unknown result op", func() { Compare(Value("k"), "==", "v") }},
		{"Unknown result op", func() { Compare(Value("k"), "", 1) }},
		{"bad compare value", func() { Compare(Value("k"), "=", []byte("v")) }},
		{"bad compare value", func() { Compare(Value("k"), "=", 1) }},
		{"bad value", func() { Compare(Version("k"), "=", "1") }},
		{"bad value", func() { Compare(CreateRevision("k"), "=", uint(1)) }},
		{"bad value", func() { Compare(ModRevision("k"), "=", LeaseID(1)) }},
		{"bad value", func() { Compare(LeaseValue("k"), "=", int32(1)) }},
		{"Unknown compare type", func() { Compare(unknown, "=", 1) }},
	}
	for _, tt := range tests {
		require.PanicsWithValue(t, tt.want, tt.call)
	}
	wrong := Compare(Version("k"), "=", 1)
	require.Panics(t, func() { wrong.WithValueBytes([]byte("v")) })
	incomplete := Value("k")
	require.Panics(t, func() { incomplete.WithValueBytes([]byte("v")) })
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

func TestCmpBytes(t *testing.T) {
	c := Compare(Value("k"), "=", "v")
	require.Equal(t, "k", string(c.KeyBytes()))
	require.Equal(t, "v", string(c.ValueBytes()))
	c.WithKeyBytes([]byte("k2"))
	c.WithValueBytes([]byte("v2"))
	require.Equal(t, "k2", string(c.KeyBytes()))
	require.Equal(t, "v2", string(c.ValueBytes()))

	version := Compare(Version("k"), "=", 1)
	require.Nil(t, version.ValueBytes())
}

func TestZeroCmp(t *testing.T) {
	var none *Cmp
	require.Nil(t, none.KeyBytes())
	var zero Cmp
	require.Nil(t, zero.KeyBytes())
	clone := zero.Clone()
	require.NotNil(t, clone.GetCompare())
	ranged := Cmp{}.WithRange("z")
	require.Equal(t, "z", string(ranged.GetCompare().RangeEnd))
	everything := Cmp{}.WithPrefix()
	require.Equal(t, []byte{0}, everything.GetCompare().RangeEnd)
	version := Compare(Cmp{}, "=", 1)
	require.Equal(t, int64(1), version.GetCompare().GetVersion())
	of := FromCompare(nil)
	require.NotNil(t, of.GetCompare())
	set := Cmp{}
	set.WithKeyBytes([]byte("k"))
	require.Equal(t, "k", string(set.KeyBytes()))
}
