//go:build experiment

package locks

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/official"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/internal/soaktest"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// TestLocks is the short form of "quorate-lab soak locks".
func TestLocks(t *testing.T) {
	ctx, cfg := soaktest.Short(t, func(c *robustness.Counts) bool {
		taken := func(style lockcheck.Style) bool { return c.Of(string(style), string(lockcheck.Taken)) > 0 }
		return taken(lockcheck.Lock) && taken(lockcheck.Campaign) && c.Of("writes", "accepted") > 0 && c.Of("writes", "refused") > 0
	})
	result, err := Config{Config: cfg}.Run(ctx)
	require.NoError(t, err)
	t.Log("\n" + result.String())
	// On a machine that other tests keep busy sessions of 2 s do not last, and not all take a lock in the end.
	require.Equal(t, result.Verdict.Counts[lockcheck.Live], result.Verdict.Total(), "%v", result)
	for _, style := range []lockcheck.Style{lockcheck.Lock, lockcheck.Campaign} {
		assert.Positive(t, result.Counts.Of(string(style), string(lockcheck.Taken)), style)
	}
	assert.Positive(t, result.Counts.Of("writes", "refused"), "no contender wrote that had lost the lock")
}

// TestOfficial shows how the official client does under the same faults. What it breaks is no failure of ours.
func TestOfficial(t *testing.T) {
	result, err := Config{Config: soaktest.Fixed(t), connect: official.Locker}.Run(t.Context())
	require.NoError(t, err)
	t.Log("\n" + result.String())
}

// faulty is a client of Quorate whose locks are spoiled.
type faulty struct {
	quorate.Client
	// session makes of a session one that is spoiled.
	session func(s quorate.Session) client.Session
	// live returns the context that ends a session, and the session's time to live in
	// seconds.
	live func(ctx context.Context, ttl int) (context.Context, int)
}

func (f faulty) Session(ctx context.Context, ttl int) (client.Session, error) {
	s, err := f.Client.Session(f.live(ctx, ttl))
	if err != nil {
		return nil, err
	}
	return f.session(s.(quorate.Session)), nil
}

// spoiled is a session with other handles.
type spoiled struct {
	client.Session
	handle func(style lockcheck.Style, name string) client.Handle
}

func (s spoiled) Handle(style lockcheck.Style, name string) client.Handle {
	return s.handle(style, name)
}

// withGuards returns a session with other guards.
func withGuards(s client.Session, spoil func(*client.Guard)) client.Session {
	return spoiled{s, func(style lockcheck.Style, name string) client.Handle {
		handle := s.Handle(style, name)
		guard := handle.Guard
		handle.Guard = func() client.Guard {
			spoiled := guard()
			spoil(&spoiled)
			return spoiled
		}
		return handle
	}}
}

// early returns a session with locks that do not wait: they queue and call that success.
func early(s quorate.Session) client.Session {
	return spoiled{s, func(_ lockcheck.Style, name string) client.Handle {
		c, key, revision := s.Client(), fmt.Sprintf("%s/%x", name, s.Lease()), int64(0)
		return client.Handle{
			Acquire: func(ctx context.Context) error {
				response, err := c.Put(ctx, key, "", clientv3.WithLease(s.Session.Lease()))
				if err == nil {
					revision = response.Header.GetRevision()
				}
				return err
			},
			Release: func(ctx context.Context) error {
				_, err := c.Delete(ctx, key)
				return err
			},
			Guard: func() client.Guard {
				return quorate.NewGuard(c, clientv3.Compare(clientv3.CreateRevision(key), "=", revision))
			},
		}
	}}
}

// unguarded returns a session of locks whose holders write without a guard.
func unguarded(s quorate.Session, broke func()) client.Session {
	write := func(ctx context.Context, claim lockcheck.Claim, key, value string) (bool, int64, error) {
		owner := clientv3.Compare(clientv3.CreateRevision(claim.Key), "=", claim.Revision)
		put := clientv3.OpPut(key, value)
		response, err := s.Client().Txn(ctx).If(owner).Then(put).Else(put).Commit()
		if err != nil {
			return false, 0, err
		}
		if !response.Succeeded {
			broke()
		}
		return true, response.Header.GetRevision(), nil
	}
	return withGuards(s, func(g *client.Guard) {
		claim := g.Claim
		g.Write = func(ctx context.Context, key, value string) (bool, int64, error) {
			return write(ctx, claim, key, value)
		}
	})
}

// denying returns a session with guards that deny every fourth write which they made.
func denying(s client.Session, writes *atomic.Int64, broke func()) client.Session {
	return withGuards(s, func(g *client.Guard) {
		write := g.Write
		g.Write = func(ctx context.Context, key, value string) (bool, int64, error) {
			accepted, revision, err := write(ctx, key, value)
			if accepted && writes.Add(1)%4 == 0 {
				accepted = false
				broke()
			}
			return accepted, revision, err
		}
	})
}

// neverReleasingTTL is the time to live of a neverReleasing session in seconds: longer than a busy machine can keep a client from
// renewing it.
const neverReleasingTTL = 60

// neverReleasing sessions never release a lock, and live until the end of their client.
type neverReleasing struct {
	client.Session
	done <-chan struct{}
}

func (s neverReleasing) Done() <-chan struct{} { return s.done }
func (s neverReleasing) Orphan()               {}
func (s neverReleasing) Close() error          { return nil }

// newNeverReleasing returns a session that never releases a lock.
func newNeverReleasing(s quorate.Session, done <-chan struct{}, broke func()) client.Session {
	return neverReleasing{spoiled{s, func(style lockcheck.Style, name string) client.Handle {
		handle := s.Handle(style, name)
		handle.Release = func(context.Context) error {
			broke()
			return nil
		}
		return handle
	}}, done}
}

// TestFaultyLocksAreFound puts locks that break promises in place of correct ones. A run lasts until promises
// were broken often enough, however long that takes where the machine is busy. What the runs take is mostly waiting, so
// they go side by side.
func TestFaultyLocksAreFound(t *testing.T) {
	t.Parallel()
	same := func(ctx context.Context, ttl int) (context.Context, int) { return ctx, ttl }
	var writes atomic.Int64
	over := make(chan struct{})
	close(over)
	tests := []struct {
		name   string
		locks  int // few, so that contenders meet, or many, so that they get to write
		broken int // times that a promise is to be broken
		client func(sound quorate.Client, broke func()) client.Locker
		want   []lockcheck.Promise
	}{
		{"early and denying", defaultLocks, 20, func(sound quorate.Client, broke func()) client.Locker {
			return faulty{sound, func(s quorate.Session) client.Session { return denying(early(s), &writes, broke) }, same}
		}, []lockcheck.Promise{lockcheck.Acquired, lockcheck.Guarded, lockcheck.Truthful}},
		{"unguarded", defaultContenders, 5, func(sound quorate.Client, broke func()) client.Locker {
			return faulty{sound, func(s quorate.Session) client.Session { return unguarded(s, broke) }, same}
		}, []lockcheck.Promise{lockcheck.Guarded}},
		{"never releasing", defaultLocks, 3, func(sound quorate.Client, broke func()) client.Locker {
			return faulty{
				sound, func(s quorate.Session) client.Session { return newNeverReleasing(s, over, broke) },
				func(context.Context, int) (context.Context, int) { return sound.Ctx(), neverReleasingTTL },
			}
		}, []lockcheck.Promise{lockcheck.Released, lockcheck.Live}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, enough := context.WithCancel(t.Context())
			defer enough()
			var broken atomic.Int64
			broke := func() {
				if broken.Add(1) == int64(tt.broken) {
					enough()
				}
			}
			result, err := Config{
				Config:        robustness.Config{Duration: 3 * time.Minute, Dir: t.TempDir()},
				locks:         tt.locks,
				settleTimeout: 2 * time.Second,
				connect: func(endpoints []string) (client.Locker, error) {
					sound, err := quorate.Locker(endpoints)
					if err != nil {
						return nil, err
					}
					return tt.client(sound.(quorate.Client), broke), nil
				},
			}.Run(ctx)
			require.NoError(t, err)
			for _, p := range tt.want {
				assert.Positive(t, result.Verdict.Counts[p], "%s: %v", p, result)
			}
			t.Log(result.Verdict.Counts)
		})
	}
}
