// Package concurrency has locks, elections and transactions on top of etcd. Clients
// of the official package and of this one share locks and elections.
//
// # Sessions, locks and elections
//
// A [Session] is a lease that is kept alive. Whoever wants a lock or an office puts
// a key that is attached to the lease, below a prefix; the one whose key was created
// first has it, and everybody else waits for the key before their own to go. When a
// process dies its lease ends, its keys are deleted, and the next one's turn comes.
//
// [Mutex.Lock] and [Election.Campaign] return nil on evidence only: one read, agreed
// on by a majority of the cluster, that shows the own key to exist and no older one.
// They return [ErrSessionExpired] as soon as the own key or the session is lost.
//
// No lock service can stop a process that was paused for longer than its lease, or
// whose writes are slow, from acting on a lock that it has lost. What the lock
// guards must be able to tell: writes to etcd by a transaction that compares
// [Mutex.IsOwner], other systems by a number that only grows, such as the revision in
// [Mutex.Header].
//
// # What a failed call leaves behind
//
// A Lock or Campaign that fails deletes its own key again, even if its context has
// ended, and even if it is not known whether the key was written. If the cluster does
// not answer, the call returns 3 s after that, or when the TTL has passed, and the
// session goes on in the background until the key is deleted or the session ends. For a
// quarter of an hour it also deletes a key that appears later, because a member that was
// stopped carries out an old request when it goes on. Sessions that were orphaned, or
// were given their lease ([WithLease]), do nothing in the background: such a key goes
// when the lease ends, or is used when the session takes part again.
//
// A deletion may come late as well. None deletes a key that was put after it was sent, and a
// key for which one may yet come is not used again: Lock and Campaign put another.
//
// # Transactions
//
// [NewSTM] runs a function that reads and writes keys as if nobody else did, and
// repeats it when somebody did.
package concurrency
