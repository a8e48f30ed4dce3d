package recipe

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
)

var (
	// ErrKeyExists is returned by [Barrier.Hold] for a barrier that is held.
	ErrKeyExists = errors.New("key already exists")

	// ErrWaitMismatch is not returned by any function of this package.
	ErrWaitMismatch = errors.New("unexpected wait result")

	// ErrTooManyClients is returned by [DoubleBarrier.Enter] if all participants have
	// already entered.
	ErrTooManyClients = errors.New("too many clients")

	// ErrNoWatcher reports that a watch ended without a reason while its client is
	// open: the client's Watcher was closed, or violates the contract.
	ErrNoWatcher = errors.New("no watcher channel")
)

// sessionError returns why a session is lost, nil if it is not. The lease of a session that
// was orphaned, or whose context has ended, lives until its TTL has passed, or longer if
// another process keeps it alive, as in etcd's own lock service.
func sessionError(s *concurrency.Session) error {
	err := s.Err()
	for _, lost := range []error{
		concurrency.ErrSessionClosed, rpctypes.ErrLeaseNotFound, rpctypes.ErrNoLeader, clientv3.ErrLeaseUnanswered,
	} {
		if errors.Is(err, lost) {
			return fmt.Errorf("recipe: %w: %w", concurrency.ErrSessionExpired, err)
		}
	}
	return nil
}

// lostKeyError returns the error for a session's key that is gone.
func lostKeyError(s *concurrency.Session, key string) error {
	if err := sessionError(s); err != nil {
		return err
	}
	return fmt.Errorf("recipe: %w: its key %q was deleted, with the lease or by another client",
		concurrency.ErrSessionExpired, key)
}
