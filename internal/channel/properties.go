package channel

import (
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/retry"
)

// properties are what a call requires of its endpoint, and whether it may be hedged or
// cut.
type properties struct {
	shape  string // of calls that take equally long; "" for the method's own
	safety retry.Safety
	need   balancer.Need
	conn   balancer.ConnClass
	write  bool // a mutating call of class Calls, see balancer.Attempt.Write
	// hedged calls may be sent to a second endpoint, see package hedge.
	hedged bool
	// large calls have large responses, see largeRanges.
	large bool
	// prompt calls are proposed to the leader, and take about as long as a commit. They are cut early when it is lost.
	prompt bool
}

// Shapes of calls with similar latency. The shape of other calls is their method.
const (
	shapeGet     = "get"
	shapeCount   = "count"
	shapeFew     = "range of up to 10"
	shapeSome    = "range of up to 100"
	shapeMany    = "range of up to 1000"
	shapeRange   = "range"
	shapeReadTxn = "read-only txn"
	shapeGetTxn  = "read-only txn of gets"

	shapeRepeatableTxn = "repeatable txn"

	serializable    = "serializable "
	maxHedgedLimit  = 100
	maxHedgedRanges = 10
)

// propertiesOf returns the properties of a call. req is nil for a stream.
func propertiesOf(method string, req any) (p properties) {
	p.set(method, req)
	return p
}

// set sets the properties, none of which is set yet.
func (p *properties) set(method string, req any) {
	if r, ok := req.(*pb.RangeRequest); ok && method == pb.KV_Range_FullMethodName {
		p.safety = retry.Repeatable
		p.shape, p.hedged = shapeOfRange(r)
		if r.GetSerializable() {
			p.need, p.shape = balancer.Local, serializable+p.shape
		}
		return
	}
	safety := retry.SafetyOf(method, req)
	*p = ofMethod(method, req, safety)
	p.safety, p.write = safety, safety == retry.Mutating && p.conn == balancer.Calls
}

func ofMethod(method string, req any, safety retry.Safety) properties {
	switch method {
	case pb.KV_Range_FullMethodName: // the request is no *pb.RangeRequest
		return properties{}
	case pb.KV_Txn_FullMethodName:
		return ofTxn(req, safety)
	case pb.Cluster_MemberList_FullMethodName:
		if list, ok := req.(*pb.MemberListRequest); ok && !list.GetLinearizable() {
			return properties{need: balancer.Local, hedged: true}
		}
		return properties{hedged: true}
	case pb.Lease_LeaseTimeToLive_FullMethodName:
		ttl, ok := req.(*pb.LeaseTimeToLiveRequest)
		return properties{hedged: ok && !ttl.GetKeys()}
	case pb.Lease_LeaseLeases_FullMethodName:
		return properties{}
	case pb.Maintenance_Status_FullMethodName, pb.Maintenance_Hash_FullMethodName,
		pb.Maintenance_HashKV_FullMethodName, pb.Maintenance_Defragment_FullMethodName:
		return properties{need: balancer.Local}
	case pb.Maintenance_Snapshot_FullMethodName:
		return properties{need: balancer.Local, conn: balancer.Bulk}
	case pb.KV_RangeStream_FullMethodName:
		return properties{conn: balancer.Bulk}
	case pb.Watch_Watch_FullMethodName, pb.Lease_LeaseKeepAlive_FullMethodName:
		return properties{conn: balancer.Streams}
	case pb.KV_Compact_FullMethodName, pb.Maintenance_MoveLeader_FullMethodName:
		return properties{} // a physical compaction takes long; a new leader is the success of MoveLeader
	default:
		return properties{prompt: true}
	}
}

// shapeOfRange returns the shape of a range, and whether its response is bounded: small enough for
// hedging.
func shapeOfRange(r *pb.RangeRequest) (shape string, bounded bool) {
	limit := r.GetLimit()
	switch {
	case len(r.GetRangeEnd()) == 0:
		return shapeGet, true
	case r.GetCountOnly():
		return shapeCount, true
	case limit <= 0 || limit > 1000:
		return shapeRange, false
	case limit <= 10:
		return shapeFew, true
	case limit <= maxHedgedLimit:
		return shapeSome, true
	default:
		return shapeMany, false
	}
}

func ofTxn(req any, safety retry.Safety) properties {
	if safety != retry.Repeatable {
		return properties{prompt: true}
	}
	p := properties{shape: shapeReadTxn}
	local, bounded := inspectTxn(req.(*pb.TxnRequest))
	if bounded {
		p.hedged, p.shape = true, shapeGetTxn
	}
	if local {
		p.need, p.shape = balancer.Local, serializable+p.shape
	}
	return p
}

// inspectTxn reports whether a read-only transaction is local, because every operation is
// a serializable range, and whether its response is small. etcd treats nested
// transactions as linearizable.
func inspectTxn(txn *pb.TxnRequest) (local, bounded bool) {
	local, bounded = true, true
	for _, branch := range [2][]*pb.RequestOp{txn.GetSuccess(), txn.GetFailure()} {
		bounded = bounded && len(branch) <= maxHedgedRanges
		for _, op := range branch {
			r := op.GetRequestRange()
			local = local && r != nil && r.GetSerializable()
			_, small := shapeOfRange(r)
			bounded = bounded && r != nil && small
		}
	}
	return local, bounded
}

const (
	// largeResponse is the size of a response that delays the small ones behind it on the same
	// connection: by 8 ms on a link of 1 Gb/s.
	largeResponse = 1 << 20
	// maxLargeRanges bounds the ranges that are known to be large. Further ones are not learnt.
	maxLargeRanges = 1000
)

// largeRanges are the ranges whose latest response was large.
type largeRanges struct {
	known sync.Map // of rangeID
	count atomic.Int32
}

// rangeID identifies similar ranges: all pages of a prefix have the same end.
type rangeID struct {
	shape, end string
	keysOnly   bool
}

func idOf(r *pb.RangeRequest) rangeID {
	shape, _ := shapeOfRange(r)
	return rangeID{shape: shape, end: string(r.GetRangeEnd()), keysOnly: r.GetKeysOnly()}
}

// has reports whether the response to a request is likely to be large. The request must not be
// hedged.
func (l *largeRanges) has(req any) bool {
	if l.count.Load() == 0 {
		return false
	}
	r, ok := req.(*pb.RangeRequest)
	if !ok {
		return false
	}
	_, large := l.known.Load(idOf(r))
	return large
}

// learn records the size of the response to a request that was not hedged. The responses to hedged
// requests are bounded.
func (l *largeRanges) learn(req, reply any) {
	r, ok := req.(*pb.RangeRequest)
	if !ok {
		return
	}
	resp, ok := reply.(*pb.RangeResponse)
	if !ok {
		return
	}
	size := 0
	for _, kv := range resp.GetKvs() {
		size += len(kv.GetKey()) + len(kv.GetValue())
	}
	switch {
	case size < largeResponse && l.count.Load() == 0: // none is known
	case size < largeResponse:
		if _, was := l.known.LoadAndDelete(idOf(r)); was {
			l.count.Add(-1)
		}
	case l.count.Load() < maxLargeRanges:
		if _, was := l.known.LoadOrStore(idOf(r), struct{}{}); !was {
			l.count.Add(1)
		}
	}
}
