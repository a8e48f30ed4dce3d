package recipe

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/clientv3/concurrency"
)

var (
	// ErrKeyExists is returned by [Barrier.Hold] for a barrier that is held.
	ErrKeyExists = errors.New("key already exists")

	// ErrWaitMismatch is not returned by any function of this package.
	ErrWaitMismatch = errors.New("unexpected wait result")

	// ErrTooManyClients is returned by [DoubleBarrier.Enter] if as many as the barrier
	// is for have entered.
	ErrTooManyClients = errors.New("too many clients")

	// ErrNoWatcher says that a watch ended without a reason while its client lives: the
	// client's Watcher was closed, or is one that does not keep to the contract.
	ErrNoWatcher = errors.New("no watcher channel")
)

// sessionError returns why a session is lost, and nil if it is not. The lease of an
// orphaned session lives on for a while, or for long if somebody else keeps it alive,
// as etcd's own lock service does with those of its clients.
func sessionError(s *concurrency.Session) error {
	err := s.Err()
	if err == nil || errors.Is(err, concurrency.ErrSessionOrphaned) {
		return nil
	}
	return fmt.Errorf("recipe: %w: %w", concurrency.ErrSessionExpired, err)
}

// lostKeyError says that a session's key is gone.
func lostKeyError(s *concurrency.Session, key string) error {
	if err := sessionError(s); err != nil {
		return err
	}
	return fmt.Errorf("recipe: %w: its key %q is gone, with the lease or because somebody deleted it",
		concurrency.ErrSessionExpired, key)
}
