package recipe

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

// The keys of readers and writers are below these, below the prefix of the lock.
const (
	readers = "/read"
	writers = "/write"
)

var (
	errLocked   = errors.New("recipe: this RWMutex is locked: unlock it first, or make another one for another lock")
	errUnlocked = errors.New("recipe: this RWMutex was not locked")
)

// RWMutex is a lock for any number of readers or one writer. Each contender puts a
// key; a reader waits for all earlier writers, a writer for all earlier contenders.
// So neither starves.
//
// A lost session loses its locks, see concurrency.Session.Done; another contender may
// get the lock before the process notices.
//
// An RWMutex is one participant, for one lock at a time. It is not safe for concurrent
// use.
type RWMutex struct {
	session *concurrency.Session
	prefix  string
	me      *member // nil if not locked
}

// NewRWMutex returns a participant, with session s, in the lock whose keys begin with
// prefix and a slash.
func NewRWMutex(s *concurrency.Session, prefix string) *RWMutex {
	return &RWMutex{session: s, prefix: prefix}
}

// RLock locks for reading. It returns nil only after a linearizable read has shown
// that the participant's key exists and no older writer does.
func (m *RWMutex) RLock() error { return m.lock(readers, writers) }

// Lock locks for writing. It returns nil only after a linearizable read has shown
// that the participant's key exists and is the oldest.
func (m *RWMutex) Lock() error { return m.lock(writers, writers, readers) }

// RUnlock releases the read lock. Further calls do nothing. It fails if the RWMutex
// was never locked.
func (m *RWMutex) RUnlock() error { return m.unlock() }

// Unlock releases the lock. Further calls do nothing. It fails if the RWMutex was
// never locked.
func (m *RWMutex) Unlock() error { return m.unlock() }

func (m *RWMutex) unlock() error {
	if m.me == nil {
		return errUnlocked
	}
	return m.me.Delete()
}

// lock puts a key of a kind and waits until no older key of the other kinds exists.
func (m *RWMutex) lock(kind string, others ...string) error {
	if m.me != nil && !m.me.deleted() {
		return errLocked
	}
	return whileSession(m.session, func(ctx context.Context) error {
		me, err := join(ctx, m.session, m.prefix+kind)
		if err != nil {
			return err
		}
		if err := m.waitTurn(ctx, me, others); err != nil {
			discard(m.session, me.key)
			return err
		}
		m.me = me
		return nil
	})
}

// waitTurn waits until no key of the kinds is older than the participant's.
func (m *RWMutex) waitTurn(ctx context.Context, me *member, kinds []string) error {
	for {
		before, rev, err := m.before(ctx, me, kinds)
		if err != nil || before == nil {
			return err
		}
		if err := me.whilePresent(ctx, func(ctx context.Context) error {
			return waitGone(ctx, m.session.Client(), before, rev)
		}); err != nil {
			return err
		}
	}
}

// before returns a key of one of the kinds that is older than the participant's, the
// youngest of its kind, and the revision at which it was read; nil if there is none. It
// fails if the participant's key is gone.
func (m *RWMutex) before(ctx context.Context, me *member, kinds []string) (*mvccpb.KeyValue, int64, error) {
	ops := make([]clientv3.Op, 0, 1+len(kinds))
	ops = append(ops, clientv3.OpGet(me.key, clientv3.WithKeysOnly()))
	for _, kind := range kinds {
		ops = append(ops, clientv3.OpGet(m.prefix+kind+"/",
			append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(me.rev-1), clientv3.WithKeysOnly())...))
	}
	resp, err := m.session.Client().Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, 0, err
	}
	if !me.found(optxn.At(resp, 0).GetResponseRange().GetKvs()) {
		return nil, 0, lostKeyError(m.session, me.key)
	}
	for i := range kinds {
		if key := optxn.Key(resp, 1+i); key != nil {
			return key, resp.Header.Revision, nil
		}
	}
	return nil, 0, nil
}
