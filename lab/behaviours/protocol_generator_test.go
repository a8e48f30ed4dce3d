package behaviours_test

import (
	"bytes"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// The requests are about few keys, values and leases, so that many concern the same one. Beyond twelve keys etcd's sort
// does not keep the order of equal elements.
const (
	numKeys   = 6
	numValues = 4
	numLeases = 4
	// leaseTTL in seconds is longer than any test.
	leaseTTL = 3600
	// txnDepth is how deep transactions are nested.
	txnDepth = 2
)

// generator draws requests. Equal seeds and equal revisions give equal requests.
type generator struct {
	*rand.Rand
	revision int64 // the latest that is known
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 0)), revision: 1}
}

// oneIn is true once in n times.
func (g *generator) oneIn(n int) bool { return g.IntN(n) == 0 }

func (g *generator) letter(first rune, n int) []byte { return []byte(string(first + rune(g.IntN(n)))) }

// key is rarely empty, which is an error.
func (g *generator) key() []byte {
	if g.oneIn(40) {
		return nil
	}
	return g.letter('a', numKeys)
}

// rangeEnd is mostly nothing: one key. It may be before the key, which is an empty range.
func (g *generator) rangeEnd() []byte {
	switch g.IntN(5) {
	case 0:
		return fromKey()
	case 1:
		return g.letter('a', numKeys+1)
	default:
		return nil
	}
}

// fromKey is the range end that stands for every key from one on.
func fromKey() []byte { return []byte{0} }

func (g *generator) value() []byte { return g.letter('p', numValues) }

// leaseID returns a negative id: transcripts show those in full.
func (g *generator) leaseID() int64 { return -1 - g.Int64N(numLeases) }

// near is a revision that may be present, compacted or in the future, and rarely negative.
func (g *generator) near() int64 {
	if g.oneIn(100) {
		return -1 - g.Int64N(3)
	}
	return max(0, g.revision-12+g.Int64N(14))
}

// bound is a limit for a revision, mostly none.
func (g *generator) bound() int64 {
	if g.oneIn(6) {
		return g.near()
	}
	return 0
}

func (g *generator) read() *pb.RangeRequest {
	r := &pb.RangeRequest{
		Key: g.key(), RangeEnd: g.rangeEnd(),
		KeysOnly: g.oneIn(5), CountOnly: g.oneIn(8), Serializable: g.oneIn(3),
		MinModRevision: g.bound(), MaxModRevision: g.bound(),
		MinCreateRevision: g.bound(), MaxCreateRevision: g.bound(),
	}
	if g.oneIn(3) {
		r.Limit = g.Int64N(4)
	}
	if g.oneIn(3) {
		r.Revision = g.near()
	}
	if g.oneIn(3) {
		// One more than there are of each, which is an error.
		r.SortOrder = pb.RangeRequest_SortOrder(g.IntN(len(pb.RangeRequest_SortOrder_name) + 1))
		r.SortTarget = pb.RangeRequest_SortTarget(g.IntN(len(pb.RangeRequest_SortTarget_name) + 1))
	}
	return r
}

func (g *generator) put() *pb.PutRequest {
	r := &pb.PutRequest{Key: g.key(), Value: g.value(), PrevKv: g.oneIn(3)}
	if g.oneIn(3) {
		r.Lease = g.leaseID()
	}
	// To provide what is to be kept is an error.
	if g.oneIn(6) {
		r.IgnoreValue = true
		if !g.oneIn(5) {
			r.Value = nil
		}
	}
	if g.oneIn(6) {
		r.IgnoreLease = true
		if !g.oneIn(5) {
			r.Lease = 0
		}
	}
	return r
}

func (g *generator) deletion() *pb.DeleteRangeRequest {
	return &pb.DeleteRangeRequest{Key: g.key(), RangeEnd: g.rangeEnd(), PrevKv: g.oneIn(2)}
}

// compaction is physical: etcd answers when it is done. Its revision is not 0, which etcd accepts as the first one.
func (g *generator) compaction() *pb.CompactionRequest {
	return &pb.CompactionRequest{Revision: max(1, g.revision-10+g.Int64N(12)), Physical: true}
}

// call draws a request of any kind, as often as its weight says.
func (g *generator) call() proto.Message {
	kinds := []struct {
		weight int
		draw   func() proto.Message
	}{
		{50, func() proto.Message { return g.put() }},
		{50, func() proto.Message { return g.read() }},
		{20, func() proto.Message { return g.deletion() }},
		{60, func() proto.Message { return g.txn() }},
		{2, func() proto.Message { return g.compaction() }},
		{20, func() proto.Message { return &pb.LeaseGrantRequest{ID: g.leaseID(), TTL: leaseTTL} }},
		{10, func() proto.Message { return &pb.LeaseRevokeRequest{ID: g.leaseID()} }},
		{10, func() proto.Message { return &pb.LeaseTimeToLiveRequest{ID: g.leaseID(), Keys: g.oneIn(2)} }},
		{10, func() proto.Message { return &pb.LeaseLeasesRequest{} }},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := g.IntN(total)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			return k.draw()
		}
	}
	panic("unreachable: n is below the sum of the weights")
}

// txn draws a transaction. It either may put keys or may delete every key from one on: both together crash etcd 3.7.3,
// see protocol_test.go.
func (g *generator) txn() *pb.TxnRequest { return g.nestedTxn(txnDepth, !g.oneIn(4)) }

func (g *generator) nestedTxn(depth int, mayPut bool) *pb.TxnRequest {
	r := &pb.TxnRequest{Success: g.ops(depth, mayPut), Failure: g.ops(depth, mayPut)}
	for range g.IntN(3) {
		r.Compare = append(r.Compare, g.compare())
	}
	return r
}

func (g *generator) ops(depth int, mayPut bool) []*pb.RequestOp {
	var ops []*pb.RequestOp
	for range g.IntN(4) {
		ops = append(ops, g.op(depth, mayPut))
	}
	return ops
}

func (g *generator) op(depth int, mayPut bool) *pb.RequestOp {
	switch n := g.IntN(12); {
	case n < 4 && mayPut:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: g.put()}}
	case n < 7:
		d := g.deletion()
		if mayPut && bytes.Equal(d.RangeEnd, fromKey()) {
			d.RangeEnd = g.letter('a', numKeys+1)
		}
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: d}}
	case n < 9 && depth > 0:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: g.nestedTxn(depth-1, mayPut)}}
	default:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: g.read()}}
	}
}

func (g *generator) compare() *pb.Compare {
	c := &pb.Compare{
		Key: g.key(), RangeEnd: g.rangeEnd(),
		Result: pb.Compare_CompareResult(g.IntN(len(pb.Compare_CompareResult_name))),
		Target: pb.Compare_CompareTarget(g.IntN(len(pb.Compare_CompareTarget_name))),
	}
	switch c.Target {
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: g.Int64N(4)}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: g.near()}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: g.near()}
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: g.value()}
	case pb.Compare_LEASE:
		c.TargetUnion = &pb.Compare_Lease{Lease: -g.Int64N(numLeases + 1)}
	}
	return c
}
