// Package concurrency implements locks, elections and transactions on etcd. Locks
// and elections are compatible with those of the official package.
//
// # Sessions, locks and elections
//
// A [Session] is a lease that is kept alive. Each contender for a lock or an
// election puts a key below a prefix, attached to its session's lease. The contender
// with the first-created key is the holder; each other one waits for the deletion of
// the key before its own. When a process dies, its lease expires, its keys are
// deleted, and the next contender becomes the holder.
//
// [Mutex.Lock] and [Election.Campaign] return nil only after a linearizable read has
// shown that the caller's key exists and no older one does. They return
// [ErrSessionExpired] as soon as that key or the session is lost.
//
// No lock service can stop a process that was paused for longer than its lease, or
// whose writes are slow, from acting on a lock that it has lost. The guarded resource
// must detect that: etcd with a transaction that compares [Mutex.IsOwner] or
// [Election.IsOwner], other systems with a fencing token that only grows, such as the
// revision in [Mutex.Header].
//
// A [Semaphore] has the same keys, and the first n hold it. Package leaderelection runs a
// function while it holds a key of either kind, and fences its writes.
//
// # Kept keys
//
// [KeepKey] keeps a key under a lease of its own, and puts it again when the lease or the key is
// lost: the presence of an agent, or an address. It does not exclude others as a lock does.
//
// # Cleanup after a failed call
//
// A Lock or Campaign that fails deletes its key, even if its context has ended, and even
// if it is unknown whether the key was written. If the cluster does not answer, the call
// returns after 3 s, or the TTL if shorter, and the session continues in the background
// until the key is deleted or the session ends. For 15 minutes it also deletes a key
// that appears later, because a stopped member executes an old request when it
// continues. Orphaned sessions, those whose context has ended, and sessions with [WithLease] do
// nothing in the background: such a key is deleted with the lease, or reused by the session's
// next Lock or Campaign.
//
// A deletion may also be executed late. It never deletes a key that was put after the
// deletion was sent. A key that a late deletion may remove is not reused: Lock and Campaign
// put a new one.
//
// # Transactions
//
// [NewSTM] runs a function that reads and writes keys as one isolated transaction,
// and repeats it on a conflict.
package concurrency
