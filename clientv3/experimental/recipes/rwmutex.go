package recipe

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
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

// RWMutex is a lock for any number of readers or one writer. Whoever asks puts a key;
// a reader waits for all writers who asked before, a writer for everybody who did. So
// nobody starves.
//
// A session that is lost loses its locks, see concurrency.Session.Done; its process may
// learn of it later than the next one that gets the lock.
//
// An RWMutex is one participant, for one lock at a time. It is not safe for concurrent
// use.
type RWMutex struct {
	session *concurrency.Session
	prefix  string
	me      *member // nil if not locked
}

// NewRWMutex returns a participant, over a session, in the lock whose keys begin with a
// prefix and a slash.
func NewRWMutex(s *concurrency.Session, prefix string) *RWMutex {
	return &RWMutex{session: s, prefix: prefix}
}

// RLock locks for reading. It returns nil only on evidence: one read, agreed on by a
// majority of the cluster, that shows the own key to exist and no writer before it.
func (m *RWMutex) RLock() error { return m.lock(readers, writers) }

// Lock locks for writing. It returns nil only on evidence, as RLock does: the own key
// exists and is the oldest.
func (m *RWMutex) Lock() error { return m.lock(writers, writers, readers) }

// RUnlock releases the lock. After that it does nothing. The error says if the RWMutex
// was never locked.
func (m *RWMutex) RUnlock() error { return m.unlock() }

// Unlock releases the lock. After that it does nothing. The error says if the RWMutex
// was never locked.
func (m *RWMutex) Unlock() error { return m.unlock() }

func (m *RWMutex) unlock() error {
	if m.me == nil {
		return errUnlocked
	}
	return m.me.Delete()
}

// lock puts a key of a kind and waits until no older one is left of the others.
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

// waitTurn waits until no key of one of the kinds is older than the own one.
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

// before returns a key of one of the kinds that is older than the own one, the youngest
// of its kind, and the revision at which it was read; nil if there is none. The error says
// if the own key is gone.
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
	if !me.found(resp.Responses[0].GetResponseRange().Kvs) {
		return nil, 0, lostKeyError(m.session, me.key)
	}
	for _, r := range resp.Responses[1:] {
		if kvs := r.GetResponseRange().Kvs; len(kvs) > 0 {
			return kvs[0], resp.Header.Revision, nil
		}
	}
	return nil, 0, nil
}
