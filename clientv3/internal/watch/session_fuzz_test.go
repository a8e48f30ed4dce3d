package watch

import (
	"math"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// FuzzSessionHostile sends arbitrary responses. Whatever resume points result, the next stream, to a correct server,
// delivers everything from there on.
func FuzzSessionHostile(f *testing.F) {
	addRandom(f, 300, 400)
	f.Fuzz(runFaultyPeer)
}

func runFaultyPeer(t *testing.T, data []byte) {
	if len(data) > maxInput {
		return
	}
	h := &faultyPeer{in: &choices{data}, ss: newSession()}
	for h.in.more() {
		h.step()
		if _, err := placesOf(h.ss); err != nil {
			t.Fatal(err)
		}
		if err := protocol(h.ss); err != nil {
			t.Fatal(err)
		}
	}
	h.ss.disconnect()
	sm := &simulation{t: t, in: &choices{}, hist: newHistory(), ss: h.ss}
	for range 12 {
		sm.hist.write("a", "b", "c")
	}
	for _, s := range h.subs {
		if s.state == parked {
			continue
		}
		r := newReader(t, sm.hist, *s.req)
		r.sub, r.wanted, r.next = s, true, s.next
		s.owner = r
		sm.readers = append(sm.readers, r)
	}
	sm.settle()
	sm.checkAllDelivered()
}

// faultyPeer is a session with a peer that violates the protocol.
type faultyPeer struct {
	in   *choices
	ss   *session
	subs []*subscription
	last int64 // the highest requested id
}

func (h *faultyPeer) step() {
	switch h.in.below(10) {
	case 0:
		h.add()
	case 1:
		if len(h.subs) > 0 {
			h.ss.remove(h.subs[h.in.below(len(h.subs))])
		}
	case 2:
		h.ss.requestProgress(h.in.below(2) == 1)
	case 3:
		h.toggle()
	default:
		h.say()
	}
	for _, req := range h.ss.take() {
		h.last = max(h.last, req.GetCreateRequest().GetWatchId())
	}
}

func (h *faultyPeer) toggle() {
	if h.ss.connected {
		h.ss.disconnect()
	} else {
		h.ss.connect()
	}
}

func (h *faultyPeer) add() {
	if len(h.subs) == maxReaders {
		h.ss.add(h.subs[h.in.below(len(h.subs))])
		return
	}
	req := Request{Key: []byte("a"), End: []byte("z"), Rev: int64(h.in.below(8)), Fragment: h.in.below(2) == 1}
	if h.in.below(4) == 3 {
		req.End = nil
	}
	s := newSubscription(&req, discarding{}, req.Rev, false)
	h.subs = append(h.subs, s)
	h.ss.add(s)
}

// say passes a response to the session, and breaks the stream if the session returns an error.
func (h *faultyPeer) say() {
	if !h.ss.connected {
		return
	}
	flags := h.in.below(256)
	resp := &pb.WatchResponse{
		Header:   at(h.revision()),
		WatchId:  h.last + 2 - int64(h.in.below(6)),
		Created:  flags&3 == 1,
		Canceled: flags&12 == 4,
		Fragment: flags&16 != 0,
	}
	if flags&96 == 32 {
		resp.WatchId = invalidID
	}
	if flags&128 != 0 {
		resp.CompactRevision = h.revision()
	}
	switch h.in.below(16) {
	case 1:
		resp.Header = nil
	case 2:
		resp.CancelReason = refusedID
	}
	for range h.in.below(4) {
		ev := &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("a"), ModRevision: h.revision()}}
		if h.in.below(16) == 1 {
			ev.Kv = nil
		}
		resp.Events = append(resp.Events, ev)
	}
	if err := h.ss.receive(resp); err != nil {
		h.ss.disconnect()
		h.ss.connect()
	}
}

func (h *faultyPeer) revision() int64 {
	switch b := h.in.below(64); b {
	case 0:
		return -1
	case 1:
		return math.MaxInt64
	case 2:
		return math.MinInt64
	default:
		return int64(b) % 16
	}
}

// discarding owns subscriptions and ignores what they receive.
type discarding struct{}

func (discarding) created(*subscription, *pb.ResponseHeader)                 {}
func (discarding) refused(*subscription, *pb.WatchResponse)                  {}
func (discarding) events(*subscription, *pb.ResponseHeader, []*mvccpb.Event) {}
func (discarding) progress(*subscription, *pb.ResponseHeader, bool)          {}
func (discarding) canceled(*subscription, *pb.WatchResponse)                 {}
func (discarding) assembles(int)                                             {}
func (discarding) mergeable() int                                            { return 0 }

// maxInput bounds a fuzzer's input: longer ones find nothing more.
const maxInput = 4096

// FuzzSession runs a session against a model of etcd while keys are written and compacted, streams break, and callers
// come and go.
func FuzzSession(f *testing.F) {
	addRandom(f, 300, 600)
	f.Fuzz(simulate)
}

func simulate(t *testing.T, data []byte) {
	if len(data) > maxInput {
		return
	}
	sm := newSimulation(t, data)
	for sm.in.more() {
		sm.step()
	}
	sm.settle()
	sm.checkAllDelivered()
}

// addRandom adds inputs of n random bytes, which every run of the tests tries.
func addRandom(f *testing.F, inputs uint64, n int) {
	for seed := range inputs {
		f.Add(randomBytes(seed, n))
	}
}

func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}
