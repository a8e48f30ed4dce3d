package clientv3

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Cmp is a comparison in the If part of a transaction. [Compare] builds one.
//
// Methods on the value return a new comparison and leave the receiver as it is.
// Methods on the pointer change the receiver and all plain copies of it;
// [Cmp.Clone] makes an independent copy.
type Cmp struct {
	c *pb.Compare
}

// FromCompare makes a comparison of a protobuf message. The message is copied.
func FromCompare(c *pb.Compare) Cmp { return Cmp{c: cloneCompare(c)} }

// GetCompare returns the protobuf message that the comparison consists of, never
// nil. Changes to the message change the comparison.
func (cmp *Cmp) GetCompare() *pb.Compare {
	if cmp.c == nil {
		cmp.c = &pb.Compare{}
	}
	return cmp.c
}

// Clone returns a copy that shares nothing with the original.
func (cmp *Cmp) Clone() Cmp { return Cmp{c: cloneCompare(cmp.c)} }

// KeyBytes returns the key. The slice is the comparison's own.
func (cmp *Cmp) KeyBytes() []byte {
	if cmp == nil {
		return nil
	}
	return cmp.c.GetKey()
}

// WithKeyBytes sets the key. The slice is kept, not copied.
func (cmp *Cmp) WithKeyBytes(key []byte) { cmp.GetCompare().Key = key }

// ValueBytes returns the value compared with, nil for a comparison of something
// else than the value. The slice is the comparison's own.
func (cmp *Cmp) ValueBytes() []byte {
	if v, ok := cmp.GetCompare().GetTargetUnion().(*pb.Compare_Value); ok {
		return v.Value
	}
	return nil
}

// WithValueBytes sets the value compared with. The slice is kept, not copied. It
// panics unless the comparison is one of a value, completed by [Compare].
func (cmp *Cmp) WithValueBytes(v []byte) {
	cmp.GetCompare().TargetUnion.(*pb.Compare_Value).Value = v
}

// WithRange returns a comparison that must hold for every key in [key, end).
func (cmp Cmp) WithRange(end string) Cmp {
	c := copyOrNewCompare(cmp.c)
	c.RangeEnd = []byte(end)
	return Cmp{c: c}
}

// WithPrefix returns a comparison that must hold for every key that begins with
// the key.
func (cmp Cmp) WithPrefix() Cmp {
	c := copyOrNewCompare(cmp.c)
	c.RangeEnd = prefixEnd(c.Key)
	return Cmp{c: c}
}

func copyOrNewCompare(c *pb.Compare) *pb.Compare {
	if c == nil {
		return &pb.Compare{}
	}
	return cloneCompare(c)
}

// cloneCompare copies field by field: comparisons are copied at every step of
// building a transaction, and reflection would be most of its cost.
func cloneCompare(c *pb.Compare) *pb.Compare {
	if c == nil {
		return nil
	}
	clone := &pb.Compare{
		Result:   c.Result,
		Target:   c.Target,
		Key:      bytes.Clone(c.Key),
		RangeEnd: bytes.Clone(c.RangeEnd),
	}
	switch u := c.TargetUnion.(type) {
	case *pb.Compare_Version:
		clone.TargetUnion = &pb.Compare_Version{Version: u.Version}
	case *pb.Compare_CreateRevision:
		clone.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: u.CreateRevision}
	case *pb.Compare_ModRevision:
		clone.TargetUnion = &pb.Compare_ModRevision{ModRevision: u.ModRevision}
	case *pb.Compare_Value:
		clone.TargetUnion = &pb.Compare_Value{Value: bytes.Clone(u.Value)}
	case *pb.Compare_Lease:
		clone.TargetUnion = &pb.Compare_Lease{Lease: u.Lease}
	}
	return clone
}
