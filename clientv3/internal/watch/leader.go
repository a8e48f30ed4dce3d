package watch

import (
	"context"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/pause"
)

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
