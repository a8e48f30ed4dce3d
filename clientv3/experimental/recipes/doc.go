// Package recipe implements queues, barriers and a readers-writer lock on etcd. They
// are compatible with those of the official package: the keys are the same. The import
// path ends in "recipes".
//
// # End of a wait
//
// Methods that wait take no context. They return nil only when the awaited event has
// happened, and otherwise an error:
//
//   - the client was closed, or its Config.Context has ended; the error wraps
//     context.Canceled or that context's error;
//   - the session of a [DoubleBarrier] or [RWMutex] is lost: the error wraps
//     concurrency.ErrSessionExpired, and the *concurrency.SessionEndedError with the
//     reason, if known;
//   - the server refuses the read or the watch: the error is the server's, comparable
//     with == to the variables of rpctypes.
//
// A wait watches from the revision after its preceding read, so it misses no event; if
// that revision has been compacted it reads again. While etcd is unreachable the wait
// continues, until the client or the session ends.
//
// # Outcome of a failed call
//
// Errors of clientv3 are returned unchanged. A write with a lost response is repeated where
// the repetition reveals the outcome: when an element is taken from a queue or put into a
// [PriorityQueue], on lock and on enter. Otherwise the error is a
// *retry.UnknownOutcomeError: the element may or may not have been put or taken, at most
// once.
//
// A failed call deletes the session's key that it may have written. If that is not
// possible within 7 s, or if a stopped member executes the request later, the key is
// deleted with the session.
package recipe
