package concurrency

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
)

const (
	// cleanupTimeout is how long a failed call goes on to delete its key: the second in
	// which the client notices that a member does not answer, and two of etcd's election
	// timeouts, 1 s by default, for a leader that has to be replaced.
	cleanupTimeout = 3 * time.Second

	// leftoverTimeout is how long a key is cleaned up. What a network holds up is given up after that
	// time (Linux, net.ipv4.tcp_retries2); a member that is stopped for longer is a rarity
	// that a lasting watch for each such key would be too much for.
	leftoverTimeout = 15 * time.Minute

	// leftoverInterval is the pause of a cleanup after an error. Nobody waits for it but those
	// who wait for the key to go.
	leftoverInterval = time.Second
)

// cleanup returns a context for undoing what a call with the context ctx has done,
// whether or not that has ended: it keeps the values of ctx, credentials among them. It
// lasts for cleanupTimeout, or the TTL if that is shorter: a cluster that cannot be reached
// for so long ends the session itself, and its keys with it.
func (s *Session) cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), min(s.opts.ttlDuration(), cleanupTimeout))
}

// discard deletes the key that was created at rev, unless that is to be spared. If rev is 0
// it is the key that goes with the session now. That is read first: a request to delete
// whatever key there is could be carried out late, and delete that of a later lock.
func (s *Session) discard(ctx context.Context, key string, rev int64, spared []int64) error {
	if rev == 0 {
		resp, err := s.client.Get(ctx, key) // the server leaves the lease out with WithKeysOnly
		if err != nil {
			return err
		}
		if len(resp.Kvs) == 0 || resp.Kvs[0].Lease != int64(s.id) {
			return nil
		}
		rev = resp.Kvs[0].CreateRevision
	}
	if slices.Contains(spared, rev) {
		return nil
	}
	_, err := s.remove(ctx, key, rev)
	return err
}

// reportLeftover logs a key that could not be deleted.
func (s *Session) reportLeftover(key string, err error) {
	s.client.GetLogger().Warn("key of a failed lock or campaign could not be deleted yet; it goes with the session at the latest",
		zap.String("key", key), zap.Int64("lease-id", int64(s.id)), zap.Error(err))
}

// cleanups counts the goroutines that clean up.
type cleanups struct {
	mu      sync.Mutex // no cleanup begins when ctx has ended
	running sync.WaitGroup
}

func (sw *cleanups) begin(ctx context.Context, run func()) {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	if ctx.Err() == nil {
		sw.running.Go(run)
	}
}

// wait returns when no cleanup runs any more. The context of begin has ended.
func (sw *cleanups) wait() {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	sw.running.Wait()
}

// cleanupKey has the session delete a key, from now on and for sweepFor, whenever the key exists
// and is none that a mutex or election of the session has. It is for a key that could not
// be deleted, and for one that a request may yet put whose outcome is unknown: a member
// that was stopped with it carries it out when it goes on, and the lock would be nobody's.
//
// A session does so for its own lease only. With a lease that it was given, another
// session that has it as well could have the key.
func (s *Session) cleanupKey(key string) {
	if s.opts.leaseID != clientv3.NoLease {
		return
	}
	if settled := s.claims.beginCleanup(key, time.Now().Add(leftoverTimeout)); settled != nil {
		s.cleanups.begin(s.ctx, func() { s.runCleanup(key, settled) })
	}
}

func (s *Session) runCleanup(key string, settled <-chan struct{}) {
	for !s.cleanupUntilFault(key, settled) && pause.For(s.ctx, leftoverInterval) == nil {
		continue
	}
}

// cleanupUntilFault returns false when the key could not be deleted or is no longer watched,
// and true when it need not be cleaned up any more.
func (s *Session) cleanupUntilFault(key string, settled <-chan struct{}) (done bool) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	appeared := s.client.Watch(ctx, key, clientv3.WithFilterDelete())
	over := time.NewTimer(leftoverTimeout)
	defer over.Stop()
	for s.cleaned(key) {
		left := s.claims.endCleanup(key)
		if left <= 0 {
			return true
		}
		over.Reset(left)
		select {
		case <-settled:
		case <-over.C:
		case _, open := <-appeared:
			if !open {
				return false
			}
		}
	}
	return false
}

// cleaned deletes the key if it is nobody's. It reports whether that has been done, or is
// refused, or is for later, when nobody tries to get the key.
func (s *Session) cleaned(key string) bool {
	spared, end, begun := s.claims.remove(key, nil)
	if !begun {
		return true
	}
	defer end()
	ctx, cancel := context.WithTimeout(s.ctx, cleanupTimeout)
	defer cancel()
	err := s.discard(ctx, key, 0, spared)
	return err == nil || !passing(err)
}
