package integration_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/robustness"
)

var prefixes atomic.Int64

// newPrefix returns a prefix that no other test uses, nor another run of this one.
func newPrefix(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(t.Name(), "#", prefixes.Add(1))
}

// What the packages have in common.
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
	rwMutex interface {
		Lock() error
		Unlock() error
		RLock() error
		RUnlock() error
	}
	queue interface {
		Enqueue(val string) error
		Dequeue() (string, error)
	}
	barrier interface {
		Enter() error
		Leave() error
	}
)

// program is a program with a client of one kind, and a session. Programs of both kinds share locks, elections, transactions, recipes
// and the leasing cache on one server.
type program struct {
	lease             int64
	locked, notLeader error

	mutex    func(prefix string) mutex
	election func(prefix string) election
	resumed  func(prefix, key string, rev int64) election
	rwMutex  func(prefix string) rwMutex
	queue    func(prefix string) queue
	barrier  func(prefix string, count int) barrier
	// observe passes on the leaders until ctx ends.
	observe func(ctx context.Context, prefix string, leaders chan<- string)
	// put writes a key if the mutex is held.
	put func(ctx context.Context, m mutex, key, value string) (done bool, err error)
	stm func(level int, apply func(stm) error) error
	// get, set and remove go through a leasing cache.
	leasing func(prefix string) (get func(key string) string, set func(key, value string), remove func(key string))
}

// kinds make programs of each kind. The session of a program keeps the given lease alive, or for 0 a new one, which it revokes in
// the end. theirs is a copy of ours, made by go generate ./lab/robustness/client.
var kinds = map[string]func(t *testing.T, lease int64) program{"official": theirs, "quorate": ours}

// both runs a test for a program of one kind that is there before one of the other kind.
func both(t *testing.T, test func(t *testing.T, one, other func(t *testing.T, lease int64) program)) {
	t.Run("official before quorate", func(t *testing.T) { test(t, theirs, ours) })
	t.Run("quorate before official", func(t *testing.T) { test(t, ours, theirs) })
}

// several returns programs of both kinds in turn.
func several(t *testing.T, n int) (all []program) {
	t.Helper()
	for range n / 2 {
		all = append(all, ours(t, 0), theirs(t, 0))
	}
	return all
}

// together makes all programs do something at the same time.
func together(t *testing.T, programs []program, do func(i int, p program)) {
	t.Helper()
	done := robustness.Go(len(programs), func(i int) { do(i, programs[i]) })
	require.NoError(t, robustness.Await(done, labtest.Timeout, "not all have ended"))
}

// endSession ends a session with the test, and revokes its lease unless that is another's.
func endSession(t *testing.T, lease int64, s interface {
	Close() error
	Orphan()
},
) {
	if lease != 0 {
		t.Cleanup(s.Orphan)
		return
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have revoked the lease
}

// brief is how long something is given to happen that must not.
const brief = 200 * time.Millisecond

// requireNothingYet checks that no result comes.
func requireNothingYet(t *testing.T, result <-chan error) {
	t.Helper()
	select {
	case err := <-result:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(brief):
	}
}
