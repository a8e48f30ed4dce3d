package concurrency_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3"
	officialconcurrency "go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// mutex, election and stm are what the packages have in common.
type (
	mutex interface {
		Lock(ctx context.Context) error
		TryLock(ctx context.Context) error
		Unlock(ctx context.Context) error
		Key() string
	}
	election interface {
		Campaign(ctx context.Context, val string) error
		Proclaim(ctx context.Context, val string) error
		Resign(ctx context.Context) error
		Key() string
		Rev() int64
	}
	stm interface {
		Get(key ...string) string
		Put(key, val string)
	}
)

// client is a client of either kind, with a session of its package.
type client interface {
	lease() int64
	revoke(ctx context.Context, lease int64) error
	// put writes a key if the mutex is held.
	put(ctx context.Context, m mutex, key, value string) (done bool, err error)
	get(ctx context.Context, key string) (value string, exists bool, err error)

	mutex(prefix string) mutex
	election(prefix string) election
	resumed(prefix, key string, rev int64) election
	// observe calls f with every leader until ctx ends.
	observe(ctx context.Context, prefix string, f func(value string))
	stm(level int, apply func(stm) error) error

	locked() error
	notLeader() error
}

// kinds makes a client of each kind. Its session keeps the given lease alive, or a new
// one that it revokes in the end.
var kinds = map[string]func(t *testing.T, lease int64) client{
	"official": newTheirs,
	"quorate":  newOurs,
}

// pairs runs a test for every pair of kinds, the same one twice included.
func pairs(t *testing.T, test func(t *testing.T, one, other func(t *testing.T, lease int64) client)) {
	t.Helper()
	for name, one := range kinds {
		for otherName, other := range kinds {
			t.Run(name+" before "+otherName, func(t *testing.T) {
				t.Parallel()
				test(t, one, other)
			})
		}
	}
}

type ours struct {
	c *clientv3.Client
	s *concurrency.Session
}

func newOurs(t *testing.T, lease int64) client {
	t.Helper()
	c := labtest.Client(t, clientv3.Config{Endpoints: []string{endpoints[0]}})
	s, err := concurrency.NewSession(c, concurrency.WithLease(clientv3.LeaseID(lease)))
	require.NoError(t, err)
	if lease == 0 {
		t.Cleanup(func() { _ = s.Close() })
	} else {
		t.Cleanup(s.Orphan)
	}
	return &ours{c: c, s: s}
}

func (o *ours) lease() int64 { return int64(o.s.Lease()) }

func (o *ours) revoke(ctx context.Context, lease int64) error {
	_, err := o.c.Revoke(ctx, clientv3.LeaseID(lease))
	return err
}

func (o *ours) put(ctx context.Context, m mutex, key, value string) (bool, error) {
	held := m.(*concurrency.Mutex).IsOwner()
	resp, err := o.c.Txn(ctx).If(held).Then(clientv3.OpPut(key, value)).Commit()
	return err == nil && resp.Succeeded, err
}

func (o *ours) get(ctx context.Context, key string) (string, bool, error) {
	resp, err := o.c.Get(ctx, key)
	if err != nil || len(resp.Kvs) == 0 {
		return "", false, err
	}
	return string(resp.Kvs[0].Value), true, nil
}

func (o *ours) mutex(prefix string) mutex       { return concurrency.NewMutex(o.s, prefix) }
func (o *ours) election(prefix string) election { return concurrency.NewElection(o.s, prefix) }

func (o *ours) resumed(prefix, key string, rev int64) election {
	return concurrency.ResumeElection(o.s, prefix, key, rev)
}

func (o *ours) observe(ctx context.Context, prefix string, f func(string)) {
	for resp := range concurrency.NewElection(o.s, prefix).Observe(ctx) {
		f(string(resp.Kvs[0].Value))
	}
}

type ourSTM struct{ concurrency.STM }

func (s ourSTM) Put(key, val string) { s.STM.Put(key, val) }

func (o *ours) stm(level int, apply func(stm) error) error {
	_, err := concurrency.NewSTM(o.c, func(s concurrency.STM) error { return apply(ourSTM{s}) },
		concurrency.WithIsolation(concurrency.Isolation(level)))
	return err
}

func (o *ours) locked() error    { return concurrency.ErrLocked }
func (o *ours) notLeader() error { return concurrency.ErrElectionNotLeader }

type theirs struct {
	c *official.Client
	s *officialconcurrency.Session
}

func newTheirs(t *testing.T, lease int64) client {
	t.Helper()
	c := labtest.Official(t, endpoints...)
	s, err := officialconcurrency.NewSession(c, officialconcurrency.WithLease(official.LeaseID(lease)))
	require.NoError(t, err)
	if lease == 0 {
		t.Cleanup(func() { _ = s.Close() })
	} else {
		t.Cleanup(s.Orphan)
	}
	return &theirs{c: c, s: s}
}

func (o *theirs) lease() int64 { return int64(o.s.Lease()) }

func (o *theirs) revoke(ctx context.Context, lease int64) error {
	_, err := o.c.Revoke(ctx, official.LeaseID(lease))
	return err
}

func (o *theirs) put(ctx context.Context, m mutex, key, value string) (bool, error) {
	held := m.(*officialconcurrency.Mutex).IsOwner()
	resp, err := o.c.Txn(ctx).If(held).Then(official.OpPut(key, value)).Commit()
	return err == nil && resp.Succeeded, err
}

func (o *theirs) get(ctx context.Context, key string) (string, bool, error) {
	resp, err := o.c.Get(ctx, key)
	if err != nil || len(resp.Kvs) == 0 {
		return "", false, err
	}
	return string(resp.Kvs[0].Value), true, nil
}

func (o *theirs) mutex(prefix string) mutex { return officialconcurrency.NewMutex(o.s, prefix) }
func (o *theirs) election(prefix string) election {
	return officialconcurrency.NewElection(o.s, prefix)
}

func (o *theirs) resumed(prefix, key string, rev int64) election {
	return officialconcurrency.ResumeElection(o.s, prefix, key, rev)
}

func (o *theirs) observe(ctx context.Context, prefix string, f func(string)) {
	for resp := range officialconcurrency.NewElection(o.s, prefix).Observe(ctx) {
		f(string(resp.Kvs[0].Value))
	}
}

type theirSTM struct{ officialconcurrency.STM }

func (s theirSTM) Put(key, val string) { s.STM.Put(key, val) }

func (o *theirs) stm(level int, apply func(stm) error) error {
	_, err := officialconcurrency.NewSTM(o.c, func(s officialconcurrency.STM) error { return apply(theirSTM{s}) },
		officialconcurrency.WithIsolation(officialconcurrency.Isolation(level)))
	return err
}

func (o *theirs) locked() error    { return officialconcurrency.ErrLocked }
func (o *theirs) notLeader() error { return officialconcurrency.ErrElectionNotLeader }
