package watch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/pause"
)

// mode is how many creates may be in flight on a stream.
type mode uint8

const (
	// probing: one, until it is known whether the peer echoes ids.
	probing mode = iota
	// pipelined: any number: the peer echoes ids.
	pipelined
	// serial: one: the peer does not echo ids.
	serial
)

// invalidID is the id in responses that belong to no single watch.
const invalidID = -1

// session speaks the protocol of the watch service over one stream at a time. It is
// a pure state machine: requests to send collect in out, results go to the owners
// of the subscriptions.
type session struct {
	connected    bool
	mode         mode
	serial       bool  // the peer has mixed up ids before: never pipeline again
	foreign      bool  // see Config.Foreign
	idless       bool  // the peer of this stream refuses chosen ids: creates carry none
	lastID       int64 // the last chosen id
	highest      int64 // the highest id confirmed on this stream, -1 if none
	firstCreated bool  // the server has answered the first create of this stream
	named        bool  // the latest reply to a create named a cluster, a member and a raft term
	held         bool  // no creates are sent at present
	rewinds      bool  // watches are created one revision earlier than they need

	queue   []*subscription // to be created, in order
	pending []creation      // creates in flight, in order
	live    map[int64]*subscription
	out     []*pb.WatchRequest

	progress progressCounts
}

// creation is a create request in flight. Its subscription is nil if it has been
// removed.
type creation struct {
	id  int64 // the session's; a request without an id carries 0
	sub *subscription
}

func newSession() *session { return &session{live: make(map[int64]*subscription), highest: -1} }

// disorder returns the error of a stream whose peer violates the protocol.
func disorder(format string, args ...any) error {
	return status.Error(codes.Unavailable, "etcdclient: watch stream reset: "+fmt.Sprintf(format, args...))
}

// connect begins a new stream with a progress request that only servers with
// unreliable progress answer, see progressCounts.
func (ss *session) connect() {
	ss.connected, ss.firstCreated, ss.named, ss.held, ss.idless = true, false, false, false, ss.foreign
	if !ss.foreign {
		ss.send(progressRequest())
	}
	ss.mode = probing
	if ss.serial || ss.foreign {
		ss.mode = serial
	}
	ss.flush()
}

// disconnect ends the stream and queues its subscriptions for the next one.
func (ss *session) disconnect() {
	ss.connected = false
	ss.out = nil
	waiting := ss.queue
	ss.queue = nil
	for _, id := range slices.Sorted(maps.Keys(ss.live)) {
		ss.requeue(ss.live[id])
	}
	for _, a := range ss.pending {
		if a.sub != nil {
			ss.requeue(a.sub)
		}
	}
	ss.queue = append(ss.queue, waiting...)
	clear(ss.live)
	ss.pending = nil
	ss.highest = -1
	ss.progress.reset()
}

func (ss *session) requeue(s *subscription) {
	s.become(queued)
	s.repeated = false
	ss.queue = append(ss.queue, s)
}

// add puts a subscription on the stream.
func (ss *session) add(s *subscription) {
	if s.state == parked {
		ss.requeue(s)
	}
	ss.flush()
}

// remove takes a subscription off the stream. Its owner gets no further calls for
// it.
func (ss *session) remove(s *subscription) {
	switch s.state {
	case asked:
		if i, ok := slices.BinarySearchFunc(ss.pending, s.id, func(c creation, id int64) int { return cmp.Compare(c.id, id) }); ok {
			ss.pending[i].sub = nil
		}
	case live:
		delete(ss.live, s.id)
		ss.send(cancelRequest(s.id))
	case queued:
		ss.queue = slices.DeleteFunc(ss.queue, func(other *subscription) bool { return other == s })
	case parked:
	}
	s.become(parked)
}

func (ss *session) hold() { ss.held = true }

func (ss *session) release() {
	ss.held = false
	ss.flush()
}

// flush sends creates for the queue, as far as the mode allows.
func (ss *session) flush() {
	for ss.connected && !ss.held && len(ss.queue) > 0 && (ss.mode == pipelined || len(ss.pending) == 0) {
		s := ss.queue[0]
		ss.queue[0] = nil
		ss.queue = ss.queue[1:]
		s.become(asked)
		ss.lastID++
		s.id = ss.lastID
		s.unconfirmed, s.priorRequests = ss.progress.inFlight(), int32(ss.progress.made)
		ss.pending = append(ss.pending, creation{s.id, s})
		ss.ask(s)
	}
	if len(ss.queue) > 0 {
		return
	}
	ss.queue = nil
	if ss.progress.wanted {
		ss.requestProgress(true)
	}
}

// ask sends a create request.
func (ss *session) ask(s *subscription) {
	id, rev := s.id, s.next
	if ss.idless {
		id = 0
	}
	if ss.rewinds && rev > 1 {
		rev-- // what comes again is dropped
	}
	ss.send(s.req.create(id, rev))
}

// dropIDs repeats the first create without an id, because the peer refused the id.
// From then on the peer chooses ids, and creates go one at a time. kine answers
// progress requests out of order with its other responses, so an answer does not
// say for which watches it is valid.
func (ss *session) dropIDs() {
	ss.idless, ss.mode = true, serial
	ss.progress.early, ss.progress.stray = true, !ss.progress.early
	if s := ss.pending[0].sub; s != nil {
		ss.ask(s)
		return
	}
	ss.pending = nil
	ss.flush()
}

func (ss *session) send(req *pb.WatchRequest) {
	if ss.connected {
		ss.out = append(ss.out, req)
	}
}

func (ss *session) take() []*pb.WatchRequest {
	out := ss.out
	ss.out = nil
	return out
}

// repeat creates a watch again that has events without the previous key-values that it asked
// for, before any with one, and reports whether it did. An etcd server notes that a watch wants
// them only after it has created it (serverWatchStream.recvLoop), and responses that are
// sent in between have none. It creates a watch again once on a stream: the previous key-values
// may be compacted. It does not if the events would not come again: a mock sends them once,
// and a watch from an unknown revision has no point to resume at.
func (ss *session) repeat(s *subscription, resp *pb.WatchResponse) bool {
	if ss.foreign || s.next == 0 {
		return false
	}
	switch has, lacks := previous(resp.Events); {
	case has:
		s.noPrevKV, s.repeated = false, false
	case lacks && s.noPrevKV && !s.repeated:
		ss.remove(s)
		ss.add(s)
		s.repeated = true
		return true
	}
	return false
}

// previous reports whether an event has a previous key-value and, if none has, whether one must.
func previous(events []*mvccpb.Event) (has, lacks bool) {
	for _, ev := range events {
		if ev.GetPrevKv() != nil {
			return true, false
		}
		creates := ev.GetType() == mvccpb.Event_PUT && ev.GetKv().GetCreateRevision() == ev.GetKv().GetModRevision()
		lacks = lacks || !creates
	}
	return false, lacks
}

// The search for a leader pauses for a random time below a bound, which doubles with
// each try. Few elections take longer than the first bound.
const (
	minLeaderRetry = time.Second
	maxLeaderRetry = 10 * time.Second
)

// leaderSearch searches for a member with a leader while watches are served without
// one. It tries streams that require a leader. The watches move only when a server
// accepts such a stream: otherwise each try would create all watches again.
type leaderSearch struct {
	sh    *shard
	bound time.Duration // of the next pause
}

// serveMeanwhile serves a stream without a leader. It returns the accepted stream with
// a leader, or why the stream without one ended.
func (ls *leaderSearch) serveMeanwhile(l *link) (accepted *link, err error) {
	ctx, cancel := context.WithCancel(ls.sh.ctx)
	found := make(chan *link, 1)
	ls.sh.engine.running.Go(func() {
		other := ls.find(ctx)
		if other != nil {
			l.cancel(errMove)
		}
		found <- other
	})
	err = ls.sh.serve(l)
	cancel()
	return <-found, err
}

// find returns a stream that a member with a leader has accepted, nil once ctx ends.
func (ls *leaderSearch) find(ctx context.Context) *link {
	conn := ls.sh.engine.cfg.Connect()
	for pause.For(ctx, rand.N(ls.bound)) == nil {
		ls.bound = min(2*ls.bound, maxLeaderRetry)
		if l := ls.try(ctx, conn); l != nil {
			return l
		}
	}
	return nil
}

// try returns a new stream if a server accepts it. The stream outlives ctx.
func (ls *leaderSearch) try(ctx context.Context, conn Connector) *link {
	l := ls.sh.newLink(conn)
	abandon := context.AfterFunc(ctx, func() { l.cancel(nil) })
	timer := time.AfterFunc(firstCreateTimeout, func() { l.cancel(errNoResponse) })
	accepted := l.open(true, ls.sh.engine.cfg.History) == nil && l.isAccepted()
	inTime, wanted := timer.Stop(), abandon()
	if accepted && inTime && wanted {
		return l
	}
	l.cancel(nil)
	return nil
}

// isAccepted waits for a first response, which shows that the server has accepted the
// stream: without a leader etcd ends a stream that requires one at once, and it sends no
// header before the first response. So the client requests a watch of an empty range,
// which servers refuse, and no watch is left over.
func (l *link) isAccepted() bool {
	nothing := Request{Key: []byte{1}, End: []byte{1}}
	_ = l.stream.Send(nothing.create(0, 0)) // Recv returns why it failed
	resp, err := l.stream.Recv()
	switch {
	case err != nil:
		return false
	case resp.Created && isRefused(resp):
		reason := refusal(resp.CancelReason)
		if resp.CancelReason == "" || isDenial(reason) {
			return true
		}
		again, _ := l.conn.InvalidateToken(reason)
		return !again
	default:
		return l.stream.Send(cancelRequest(resp.WatchId)) == nil
	}
}

// isRefused reports whether the reply to a create is a refusal.
func isRefused(resp *pb.WatchResponse) bool { return resp.WatchId == invalidID || resp.Canceled }
