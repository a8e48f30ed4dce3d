package watch

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// simulation is a session, its readers, a model of etcd, and the stream between them. A fuzzer chooses the steps.
type simulation struct {
	t       *testing.T
	in      *choices
	hist    *history
	ss      *session
	srv     *server            // nil while disconnected
	up      []*pb.WatchRequest // in flight to the server
	readers []*reader
	lastID  int64 // the last requested id
}

func newSimulation(t *testing.T, data []byte) *simulation {
	in := &choices{data}
	sm := &simulation{t: t, in: in, hist: newHistory(), ss: newSession()}
	for range in.below(16) {
		sm.write()
	}
	return sm
}

const maxReaders = 12

// step performs one random step.
func (sm *simulation) step() {
	switch op := sm.in.below(24); op {
	case 0:
		sm.write()
	case 1, 2:
		sm.addReader()
	case 3:
		sm.toggleReader()
	case 4:
		sm.reconnect()
	case 5, 6:
		sm.ss.requestProgress(sm.in.below(2) == 1)
	case 7:
		sm.hist.compacted = max(sm.hist.compacted, sm.hist.rev()-int64(sm.in.below(8)))
	case 8:
		sm.notifyProgress()
	case 9, 10, 11:
		for range 1 + sm.in.below(3) {
			sm.handle(sm.in.below(8) == 1)
		}
	case 12, 13:
		sm.onServer((*server).sendControl)
	case 14, 15:
		sm.onServer((*server).sendEvents)
	case 16, 17:
		sm.onServer((*server).sync)
	default:
		for range 1 + sm.in.below(3) {
			sm.receive()
		}
	}
	sm.check()
}

// write makes a revision of one to four events.
func (sm *simulation) write() {
	keys := []string{"a", "b", "b", "c", "y"}
	at := sm.in.below(len(keys))
	sm.hist.write(keys[at:min(len(keys), at+1+sm.in.below(4))]...)
	sm.onServer((*server).notify)
}

func (sm *simulation) onServer(f func(*server)) {
	if sm.srv != nil {
		f(sm.srv)
	}
}

func (sm *simulation) addReader() {
	if len(sm.readers) == maxReaders {
		return
	}
	ranges := []Request{
		{Key: []byte("a")},
		{Key: []byte("a"), End: []byte("z")},
		{Key: []byte("b"), End: []byte("d")},
		{Key: []byte("y"), Fragment: true},
		{Key: []byte("a"), End: []byte("z"), Fragment: true},
		{Key: []byte(denied)},
	}
	req := ranges[sm.in.below(len(ranges))]
	switch sm.in.below(4) {
	case 1:
		req.Rev = 1
	case 2:
		req.Rev = max(1, sm.hist.rev()-int64(sm.in.below(8)))
	case 3:
		req.Rev = sm.hist.rev() + int64(sm.in.below(4))
	}
	r := newReader(sm.t, sm.hist, req)
	r.early = func() bool { return sm.srv.early || sm.srv.kine }
	sm.readers = append(sm.readers, r)
	sm.want(r)
}

func (sm *simulation) want(r *reader) {
	r.wanted = true
	sm.ss.add(r.sub)
}

// toggleReader removes a reader's subscription, or adds it again.
func (sm *simulation) toggleReader() {
	if len(sm.readers) == 0 {
		return
	}
	switch r := sm.readers[sm.in.below(len(sm.readers))]; {
	case r.over:
	case r.wanted:
		r.wanted = false
		sm.ss.remove(r.sub)
	default:
		sm.want(r)
	}
}

// reconnect breaks the stream, or opens one.
func (sm *simulation) reconnect() {
	if sm.srv != nil {
		sm.srv, sm.up = nil, nil
		sm.ss.disconnect()
		return
	}
	sm.srv = newServer(sm.hist)
	switch sm.in.below(8) {
	case 5:
		sm.srv.kine = true
	case 6:
		sm.srv.proxy = true
	case 7:
		sm.srv.early = true
	}
	sm.srv.revisions = 1 + sm.in.below(4)
	sm.srv.room = 1 + sm.in.below(6)
	sm.ss.connect()
}

func (sm *simulation) notifyProgress() {
	if sm.srv == nil || len(sm.srv.watchers) == 0 {
		return
	}
	w := sm.srv.watchers[sm.in.below(len(sm.srv.watchers))]
	sm.srv.progress([]*served{w}, w.id)
}

// handle passes a request to the server. If writes is set, keys are written before the server replies.
func (sm *simulation) handle(writes bool) {
	sm.up = append(sm.up, sm.ss.take()...)
	if len(sm.up) == 0 {
		return
	}
	req := sm.up[0]
	sm.up = sm.up[1:]
	if id := req.GetCreateRequest().GetWatchId(); id != 0 {
		if id <= sm.lastID {
			sm.t.Fatalf("watch id %d after %d: ids are never used again", id, sm.lastID)
		}
		sm.lastID = id
	}
	var meanwhile func()
	if writes {
		meanwhile = sm.write
	}
	if err := sm.srv.handle(req, meanwhile); err != nil {
		sm.t.Fatal(err)
	}
}

func (sm *simulation) receive() {
	if sm.srv == nil {
		return
	}
	if resp := sm.srv.receive(); resp != nil {
		if err := sm.ss.receive(resp); err != nil {
			sm.t.Fatalf("%v: %v", err, resp)
		}
	}
}

// settle opens a stream to a server with the full history, and runs until nothing is in flight.
func (sm *simulation) settle() {
	if sm.srv != nil {
		sm.reconnect()
	}
	sm.in.data = nil
	sm.reconnect()
	sm.drain()
	sm.write() // a server reports no progress to a watcher that starts in the future
	sm.drain()
}

func (sm *simulation) drain() {
	for rounds := 0; ; rounds++ {
		if rounds == 10_000 {
			sm.t.Fatal("the session and the server never come to rest")
		}
		sm.up = append(sm.up, sm.ss.take()...)
		if len(sm.up) == 0 && sm.srv.idle() {
			return
		}
		if len(sm.up) > 0 {
			sm.handle(false)
		}
		sm.srv.sync()
		sm.srv.sendEvents()
		sm.srv.sendControl()
		sm.receive()
		sm.check()
	}
}

// checkAllDelivered checks that the readers have everything, and that progress for all confirms it.
func (sm *simulation) checkAllDelivered() {
	future := false
	for _, r := range sm.readers {
		if !r.wanted {
			continue
		}
		require.Equal(sm.t, live, r.sub.state)
		require.Empty(sm.t, values(sm.hist.between(r.sub.req, r.next, sm.hist.rev())), "not delivered")
		future = future || sm.srv.find(r.sub.id).start > sm.hist.rev()
	}
	if future {
		return // such a watcher blocks progress for all
	}
	sm.ss.requestProgress(true)
	sm.drain()
	for _, r := range sm.readers {
		if r.wanted {
			require.Equal(sm.t, sm.hist.rev()+1, r.next, "every reader receives progress for all")
		}
	}
}
