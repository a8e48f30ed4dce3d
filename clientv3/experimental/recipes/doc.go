// Package recipe has queues, barriers and a readers-writer lock on top of etcd. Clients
// of the official package and of this one share them: the keys are the same. Its import
// path ends in "recipes".
//
// # What ends a wait
//
// Methods that wait take no context. They return when what they wait for has happened,
// and otherwise with an error, never with success:
//
//   - the client was closed, or its Config.Context has ended; the error wraps
//     context.Canceled or what that context ended with;
//   - the session of a [DoubleBarrier] or [RWMutex] is lost: the error wraps
//     concurrency.ErrSessionExpired, and the *concurrency.SessionEndedError that says
//     why if the session knows;
//   - etcd refuses the read or the watch: the error is the server's, comparable with ==
//     to the variables of rpctypes.
//
// A wait begins at the revision after that of the read that it follows, so nothing is
// missed in between, and if that revision has been compacted it reads again. While etcd
// cannot be reached it goes on, for as long as the client or the session lives.
//
// # What a failed call leaves behind
//
// An error of clientv3 comes as it is. A write whose answer is lost is repeated where that
// finds out what became of it: to take an element of a queue, to put one of a
// [PriorityQueue], to lock and to enter. Where it does not, or not any more, the error is a
// *retry.UnknownOutcomeError and means what it says: the element may or may not have been
// put or taken, once at most.
//
// A key of a session that may have been written by a call that failed is deleted again; if
// that cannot be done within 7 s, or if a member that was stopped carries out the request
// only later, the key goes with the session.
package recipe
