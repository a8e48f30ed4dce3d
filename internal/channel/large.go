package channel

import (
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

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
	case size < largeResponse:
		if l.count.Load() == 0 {
			return
		}
		if _, was := l.known.LoadAndDelete(idOf(r)); was {
			l.count.Add(-1)
		}
	case l.count.Load() < maxLargeRanges:
		if _, was := l.known.LoadOrStore(idOf(r), struct{}{}); !was {
			l.count.Add(1)
		}
	}
}
