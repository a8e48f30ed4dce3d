package clientv3

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// CompareTarget is the property of a key that is compared.
type CompareTarget int

// CompareResult is the relation that must hold.
type CompareResult int

const (
	// CompareVersion compares the number of writes since the key was created.
	CompareVersion CompareTarget = iota
	// CompareCreated compares the revision that created the key.
	CompareCreated
	// CompareModified compares the revision that last wrote the key.
	CompareModified
	// CompareValue compares the value.
	CompareValue
)

// Value starts a comparison of the key's value, to be completed by [Compare] with
// a string.
func Value(key string) Cmp { return newCmp(key, pb.Compare_VALUE) }

// Version starts a comparison of the number of writes since the key was created,
// 0 for a key that does not exist. [Compare] completes it with an int or int64.
func Version(key string) Cmp { return newCmp(key, pb.Compare_VERSION) }

// CreateRevision starts a comparison of the revision that created the key, 0 for a
// key that does not exist. [Compare] completes it with an int or int64.
func CreateRevision(key string) Cmp { return newCmp(key, pb.Compare_CREATE) }

// ModRevision starts a comparison of the revision that last wrote the key, 0 for a
// key that does not exist. [Compare] completes it with an int or int64.
func ModRevision(key string) Cmp { return newCmp(key, pb.Compare_MOD) }

// LeaseValue starts a comparison of the key's lease, [NoLease] for a key without
// one. [Compare] completes it with a [LeaseID], int or int64.
func LeaseValue(key string) Cmp { return newCmp(key, pb.Compare_LEASE) }

func newCmp(key string, target pb.Compare_CompareTarget) Cmp {
	return Cmp{c: &pb.Compare{Key: []byte(key), Target: target}}
}

// Compare completes a comparison: the property that cmp names must be in the given
// relation, one of "=", "!=", ">" and "<", to v. It returns a new comparison and
// leaves cmp as it is. It panics when the relation is unknown or v does not have
// the property's type.
func Compare(cmp Cmp, result string, v any) Cmp {
	relation := mustCompareResult(result)
	c := copyOrNewCompare(cmp.c)
	c.Result = relation
	switch c.Target {
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: []byte(mustString(v))}
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: mustInt64(v)}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: mustInt64(v)}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: mustInt64(v)}
	case pb.Compare_LEASE:
		c.TargetUnion = &pb.Compare_Lease{Lease: mustInt64OrLeaseID(v)}
	default:
		panic("Unknown compare type")
	}
	return Cmp{c: c}
}

func mustCompareResult(relation string) pb.Compare_CompareResult {
	switch relation {
	case "=":
		return pb.Compare_EQUAL
	case "!=":
		return pb.Compare_NOT_EQUAL
	case ">":
		return pb.Compare_GREATER
	case "<":
		return pb.Compare_LESS
	default:
		panic("Unknown result op")
	}
}

func mustString(v any) string {
	s, ok := v.(string)
	if !ok {
		panic("bad compare value")
	}
	return s
}

func mustInt64(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case int:
		return int64(n)
	default:
		panic("bad value")
	}
}

func mustInt64OrLeaseID(v any) int64 {
	if id, ok := v.(LeaseID); ok {
		return int64(id)
	}
	return mustInt64(v)
}

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
