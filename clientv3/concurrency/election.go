package concurrency

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
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
// withdrawn, as with Lock. If the election was won before and the cluster does not
// answer, it remains won.
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
// caller is not, or no longer, the leader. After a *retry.UnknownOutcomeError the value
// may have been replaced.
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
