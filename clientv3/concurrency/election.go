package concurrency

import (
	"cmp"
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/reply"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

var (
	// ErrElectionNotLeader is returned by [Election.Proclaim] if the caller is not, or
	// no longer, the leader.
	ErrElectionNotLeader = errors.New("election: not leader")

	// ErrElectionNoLeader is returned by [Election.Leader] if there is no leader.
	ErrElectionNoLeader = errors.New("election: no leader")
)

// Election elects one session at a time as the leader, which publishes a value.
// Leader and Observe are safe for concurrent use; use the other methods from one
// goroutine at a time.
//
// Elections of one session with the same prefix are one candidate, as with [Mutex].
type Election struct {
	waiter waiter

	key    string // the leader key, empty if the caller is not the leader
	rev    int64  // the revision that created the leader key
	header *pb.ResponseHeader
}

// NewElection returns the election named pfx. A candidate's key is pfx, a slash and its
// session's lease in hexadecimal. Every key below pfx and the slash counts as a
// candidate, so no election's name may be below another's.
func NewElection(s *Session, pfx string) *Election {
	return &Election{waiter: newWaiter(s, pfx+"/")}
}

// ResumeElection returns an election that the caller has already won, given the
// leader key and its create revision, for example after a restart. It checks nothing
// before the first call. Unlike NewElection it does not append a slash to pfx.
func ResumeElection(s *Session, pfx string, leaderKey string, leaderRev int64) *Election {
	e := &Election{waiter: newWaiter(s, pfx), key: leaderKey, rev: leaderRev}
	if e.waiter.key == leaderKey {
		e.waiter.rev = leaderRev
		s.claims.hold(&e.waiter, leaderRev)
	}
	return e
}

// Campaign waits until the session is the leader. Candidates become leaders in the
// order of arrival. If the session already has a candidate with another value, Campaign
// replaces the value; observers see that if it is the leader.
//
// The errors are those of [Mutex.Lock], and [ErrElectionNotLeader] if the session's
// candidate was deleted while its value was being replaced. The candidate is then
// withdrawn, as with Lock. If the election was won before, and the cluster does not
// answer the first request, it remains won. If that is answered, and the next one, which
// replaces the value, fails, the candidate is withdrawn. [Election.Proclaim] replaces the
// value and does not withdraw.
func (e *Election) Campaign(ctx context.Context, val string) error {
	written, err := e.waiter.campaign(ctx, val, e.waiter.enqueue, func(ctx context.Context, q queue) (written queue, err error) {
		written.header = q.header
		if q.own != nil && string(q.own.Value) != val {
			if written.header, err = e.waiter.replace(ctx, e.waiter.key, e.waiter.rev, val); err != nil {
				return queue{}, err
			}
		}
		_, err = e.waiter.await(ctx, q)
		return written, err
	})
	switch {
	case err == nil:
		e.key, e.rev, e.header = e.waiter.key, e.waiter.rev, written.header
	case e.waiter.rev == 0 && e.key == e.waiter.key:
		e.key = ""
	}
	return err
}

// Proclaim replaces the leader's value. The error is [ErrElectionNotLeader] if the
// caller is not, or no longer, the leader. After a *retry.UnknownOutcomeError, or the end
// of ctx, the value may have been replaced, or may yet be: a late request also replaces the
// value of a newer Proclaim, while the caller is the leader.
func (e *Election) Proclaim(ctx context.Context, val string) error {
	if e.key == "" {
		return ErrElectionNotLeader
	}
	header, err := e.waiter.replace(ctx, e.key, e.rev, val)
	if errors.Is(err, ErrElectionNotLeader) {
		e.key = ""
		e.waiter.abandon()
	}
	if err == nil {
		e.header = header
	}
	return err
}

// replace writes a new value to the candidate created at rev.
func (w *waiter) replace(ctx context.Context, key string, rev int64, val string) (*pb.ResponseHeader, error) {
	resp, err := w.session.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", rev)).
		Then(clientv3.OpPut(key, val, clientv3.WithLease(w.session.id))).
		Commit()
	if err != nil {
		return nil, err
	}
	if !resp.Succeeded {
		return nil, ErrElectionNotLeader
	}
	return resp.Header, nil
}

// Resign ends the leadership; the next candidate becomes the leader. It does nothing
// if the caller is not the leader. After an error the caller still counts as the
// leader and may call Resign again.
func (e *Election) Resign(ctx context.Context) error {
	if e.key == "" {
		return nil
	}
	resp, err := e.waiter.release(ctx, e.key, e.rev)
	if err != nil {
		return err
	}
	e.key, e.header = "", resp.Header
	return nil
}

// IsOwner returns a comparison that holds in a transaction if the caller is the leader. It
// never holds if the election is not won.
func (e *Election) IsOwner() clientv3.Cmp {
	if e.key == "" {
		return clientv3.Compare(clientv3.CreateRevision(releasedKey), "=", -1)
	}
	return clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.rev)
}

// Leader returns the leader: a response with one key, whose value is the leader's. The
// error is [ErrElectionNoLeader] if there is none.
func (e *Election) Leader(ctx context.Context) (*clientv3.GetResponse, error) {
	resp, err := e.waiter.session.client.Get(ctx, e.waiter.prefix, clientv3.WithFirstCreate()...)
	if err != nil {
		return nil, err
	}
	if len(resp.Kvs) == 0 {
		return nil, ErrElectionNoLeader
	}
	return resp, nil
}

// Key returns the leader key, and an empty string if the election is not won.
func (e *Election) Key() string { return e.key }

// Rev returns the revision that created the leader key. It is unchanged after
// Resign, until the next Campaign.
func (e *Election) Rev() int64 { return e.rev }

// Header returns the header of the last successful write of Campaign, Proclaim or
// Resign.
func (e *Election) Header() *pb.ResponseHeader { return e.header }

// Semaphore is held by up to n sessions at a time. Use it from one goroutine at a time.
//
// The holders are the first n candidates in the order of arrival. All of its users must name
// the same n: one with a larger n may hold it beside n others. With n = 1 a semaphore is an
// [Election] of the same prefix, and excludes its leaders and the holders of a [Mutex].
//
// Each waiter watches the deletions of all keys of the semaphore, and reads them again when a
// place is free. Semaphores of one session with the same prefix are one candidate.
type Semaphore struct{ election Election }

// NewSemaphore returns the semaphore named pfx, with places for n holders; less than 1 counts
// as 1. A candidate's key is pfx, a slash and its session's lease in hexadecimal. Every key
// below pfx and the slash counts as a candidate, so no name may be below another's.
func NewSemaphore(s *Session, pfx string, n int) *Semaphore {
	m := &Semaphore{election: Election{waiter: newWaiter(s, pfx+"/")}}
	m.election.waiter.holders = n
	return m
}

// Acquire waits until the session is one of the holders. val is the value of its key, which
// others can read. The errors are those of [Election.Campaign].
func (m *Semaphore) Acquire(ctx context.Context, val string) error {
	return m.election.Campaign(ctx, val)
}

// Release gives the place to the next candidate. It does nothing if the caller is no holder.
// After an error the caller still counts as a holder and may call Release again.
func (m *Semaphore) Release(ctx context.Context) error { return m.election.Resign(ctx) }

// IsOwner returns a comparison that holds in a transaction if the caller is a holder. It never
// holds if the semaphore is not acquired.
func (m *Semaphore) IsOwner() clientv3.Cmp { return m.election.IsOwner() }

// Key returns the caller's key, and an empty string if it is no holder.
func (m *Semaphore) Key() string { return m.election.Key() }

// Rev returns the revision that created the caller's key. It is greater than that of every
// candidate that arrived before.
func (m *Semaphore) Rev() int64 { return m.election.Rev() }

// awaitPlace returns when one read, at one revision, shows that fewer keys than there are
// places are ahead of the waiter's.
func (w *waiter) awaitPlace(ctx context.Context) (queue, error) {
	for {
		resp, err := w.readAhead(ctx, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return queue{}, err
		}
		ahead := make(map[string]bool)
		for _, kv := range optxn.At(resp, 0).GetResponseRange().GetKvs() {
			ahead[string(kv.Key)] = true
		}
		if len(ahead) < w.holders {
			return queue{header: resp.Header}, nil
		}
		if err := w.awaitFreePlace(ctx, ahead, resp.Header.Revision); err != nil {
			return queue{}, err
		}
	}
}

// awaitFreePlace returns nil when so many of the keys ahead may have been deleted since rev that a
// place is free, or the waiter's own key. The next read shows what happened.
func (w *waiter) awaitFreePlace(ctx context.Context, ahead map[string]bool, rev int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	deletions := w.session.client.Watch(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithRev(rev+1), clientv3.WithFilterPut())
	return each(ctx, deletions, nil, func(_ *pb.ResponseHeader, ev *clientv3.Event) bool {
		delete(ahead, string(ev.Kv.Key))
		return len(ahead) >= w.holders && string(ev.Kv.Key) != w.key
	})
}

// observeAgain is about how long an observer pauses after a compaction, and after an attempt that lasted at least that long.
const observeAgain = time.Second

// observePauses are the pauses after consecutive errors, with full jitter. Before most errors the client has retried for 15 s.
var observePauses = retry.Policy{InitialBackoff: 2 * observeAgain, MaxBackoff: 10 * observeAgain}

// Observe returns a channel that delivers the leader, as [Election.Leader] returns it,
// and then every new leader and every new value, in order. Leaders and values that
// were soon replaced may be skipped; the last one never is.
//
// Observe continues through faults: when a watch has ended it reads the leader again.
// The channel is closed when ctx ends, the client is closed, the server denies access
// (rpctypes.ErrPermissionDenied), or the cluster has no leader and ctx was made by
// [clientv3.WithRequireLeader]. Cancel ctx when you no longer read the channel.
func (e *Election) Observe(ctx context.Context) <-chan *clientv3.GetResponse {
	o := &observer{
		client: e.waiter.session.client,
		prefix: e.waiter.prefix,
		ch:     make(chan *clientv3.GetResponse),
	}
	go o.run(ctx)
	return o.ch
}

// observer delivers the leaders of an election.
type observer struct {
	client *clientv3.Client
	prefix string
	ch     chan *clientv3.GetResponse
	// key is the last delivered leader key, and rev the revision of its value.
	key string
	rev int64
}

// run follows one leader after the other until ctx or the client ends.
func (o *observer) run(ctx context.Context) {
	defer close(o.ch)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.client.Ctx(), cancel)()
	for failures := 1; ; failures++ {
		began := time.Now()
		err := o.follow(ctx)
		if ctx.Err() != nil || !transient(err) {
			return
		}
		if err == nil || time.Since(began) >= observeAgain {
			failures = 1
		}
		if err != nil && pause.For(ctx, observePauses.Delay(failures)) != nil {
			return
		}
	}
}

// follow delivers one leader and its values. It returns nil when the leader key is
// deleted, or when another read is needed.
func (o *observer) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := o.client.Get(ctx, o.prefix, clientv3.WithFirstCreate()...)
	if err == nil && len(resp.Kvs) == 0 {
		resp, err = o.firstCandidate(ctx, resp.Header.Revision+1)
	}
	if err != nil || resp == nil {
		return err
	}
	// The watch begins before a slow reader takes the leader: one that begins later does not notice that the cluster was restored meanwhile.
	changes := o.client.Watch(ctx, string(resp.Kvs[0].Key), clientv3.WithRev(resp.Header.Revision+1))
	if !o.deliver(ctx, resp) {
		return nil
	}
	return each(ctx, changes, nil, func(header *pb.ResponseHeader, ev *clientv3.Event) bool {
		return ev.Type != clientv3.EventTypeDelete && o.deliver(ctx, response(header, ev.Kv))
	})
}

// firstCandidate waits for the first candidate from rev on. There was none before, so it
// is the leader. It returns nil if another read is needed.
func (o *observer) firstCandidate(ctx context.Context, rev int64) (leader *clientv3.GetResponse, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	puts := o.client.Watch(ctx, o.prefix, clientv3.WithPrefix(), clientv3.WithRev(rev), clientv3.WithFilterDelete())
	err = each(ctx, puts, nil, func(header *pb.ResponseHeader, ev *clientv3.Event) bool {
		leader = response(header, ev.Kv)
		return false
	})
	return leader, err
}

// errWatchClosed is returned when a watch ends without a reason, as when the Watcher is
// closed.
var errWatchClosed = errors.New("concurrency: the watch was closed")

// each calls f for the events of a watch, or of two, while f returns true. It returns nil when f has returned false, or when
// a compaction has ended a watch and it is time to read again: many may end at once, and so may the next ones.
func each(ctx context.Context, watch, other clientv3.WatchChan, f func(*pb.ResponseHeader, *clientv3.Event) bool) error {
	for {
		var resp clientv3.WatchResponse
		var open bool
		select {
		case resp, open = <-watch:
		case resp, open = <-other:
		}
		switch err := resp.Err(); {
		case !open:
			return cmp.Or(ctx.Err(), errWatchClosed)
		case errors.Is(err, rpctypes.ErrCompacted):
			return pause.About(ctx, observeAgain)
		case err != nil:
			return err
		}
		for _, ev := range resp.Events {
			if !f(resp.Header, ev) {
				return nil
			}
		}
	}
}

// response returns the response of a read at the revision of kv.
func response(header *pb.ResponseHeader, kv *mvccpb.KeyValue) *clientv3.GetResponse {
	return &clientv3.GetResponse{Header: reply.Header(header, kv.ModRevision), Kvs: []*mvccpb.KeyValue{kv}, Count: 1}
}

// deliver sends a leader, unless it was the last one sent. It returns false if ctx has
// ended.
func (o *observer) deliver(ctx context.Context, resp *clientv3.GetResponse) bool {
	kv := resp.Kvs[0]
	if string(kv.Key) == o.key && kv.ModRevision == o.rev {
		return true
	}
	select {
	case o.ch <- resp:
		o.key, o.rev = string(kv.Key), kv.ModRevision
		return true
	case <-ctx.Done():
		return false
	}
}

// transient reports whether the next attempt may succeed after err, which may be nil.
func transient(err error) bool {
	if errors.Is(err, rpctypes.ErrNoLeader) { // only with WithRequireLeader
		return false
	}
	switch retry.CodeOf(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented:
		return false
	default:
		return true
	}
}
