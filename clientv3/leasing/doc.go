// Package leasing is a KV that answers gets of single keys from memory and is still
// linearizable, because it owns what it answers: nobody can write a key that is
// owned before its owner has given it up.
//
//	kv, closeKV, err := leasing.NewKV(client, "_leasing/")
//	if err != nil {
//		…
//	}
//	defer closeKV()
//	resp, err := kv.Get(ctx, "config") // asks the server, and takes ownership
//	resp, err = kv.Get(ctx, "config")  // does not
//
// A get, or a transaction that turns out only to read, costs no request when all its
// keys are owned. A write of the owner costs one round trip, as always; a write of
// somebody else costs some more, because the owner has to be asked. So this is for
// keys that are read much oftener than written, and mostly by one client.
//
// Reads of ranges and of old revisions go to the server, as do all reads while there
// is no session. They take no ownership. The revision in the header of an answer
// from memory is that of the newest answer that this KV has had from the server: a
// revision at which the key was what the answer says.
//
// # Rules for its users
//
// Everybody who writes a key that may be owned does so through this package, or
// through the one of the official client (they share the layout below), with the
// same prefix. A Put of a plain client is not seen by owners. Reading needs no such
// care. Keys below the prefix belong to the protocol. Two KVs must not share a
// lease by concurrency.WithLease.
//
// If the program has put another Lease in place of the client's, that one must
// honour clientv3.WithLeaseMonitor; otherwise nothing is ever answered from memory.
//
// # Layout
//
// The leasing key of a key is its name behind the prefix, attached to the lease of
// its owner's session. It exists while the key is owned. The empty value says that
// nobody minds, "REVOKE" that somebody wants to write: the owner then deletes it.
// Each creation has a revision of its own, which names the incarnation.
//
// # Why it is linearizable
//
// A key is taken by a transaction that reads it and creates its leasing key, if
// there is none. A write carries a guard, a comparison in its own transaction: the
// leasing key does not exist, or is the very incarnation that the writer owns. A
// writer whose guard does not hold asks for the leasing key and waits until it is
// deleted. Therefore, while an incarnation exists, only its owner's writes change
// the key. The owner answers from memory if at that moment
//
//  1. the incarnation exists, and
//  2. none of the owner's own writes to the key is in flight, and
//  3. memory holds what the last of them left.
//
// The incarnation is deleted by its owner, who forgets the key first and then sends
// the deletion; or with its lease. The lease lives at least until its TTL after the
// last answered renewal was sent, by the owner's clock and less a hundredth for the
// clock's error, if the leader answered the renewal. etcd before 3.5.13 and the
// grpc-proxy do not ensure that (clientv3.LeaseMonitor.Deadline): there an answer
// may be older than the call while leaders change. The time is read after the value that is to be returned, so that
// whatever delays the return does no harm: the value was true when the time was
// read, which lies within the call. Whether the process was suspended shows in the
// wall clock, which is compared as well.
//
// A write in flight may be carried out long before its answer comes, and others may
// read it meanwhile. So its keys are read from the server until there is an answer.
// The answer includes what the transaction itself read of the owned keys after it
// had written; of two answers the one of the higher revision is right. A key that
// is now attached to a lease is given up, since it can vanish without a guard.
//
// # Fences
//
// The answer to a write may be lost, and the write may be carried out much later. If
// the key were read and cached again meanwhile, that would not be noticed. The late
// write is fenced off instead: its incarnation is given up, and deleted, before the
// key can be owned again as another incarnation; by then the guard of the late write
// is false for ever. For the same reason a leasing key of this session that is not
// in memory, as one left by an acquisition without an answer, is never taken over. It
// is deleted, and the key acquired again.
//
// The answer to an acquisition may be overtaken by the news that its leasing key is
// wanted, or has gone. Such news is noted for as long as an acquisition is in
// flight: only an incarnation newer than all of it enters memory.
//
// A delete of a range may meet any number of leasing keys. Its guard says that none
// was created after a revision at which they had been listed, and all those listed
// are this client's own and in memory. One listed there of which memory knows nothing
// is deleted first, and may not enter it any more. A delete of a range in which
// leasing keys themselves lie has all of them given up before.
//
// # Faults
//
// One watch of the prefix tells the owner what others want. It carries what all
// clients acquire, which is little as long as keys are acquired seldom. Memory does
// not depend on it for what it answers, only others do, for being heard. Still, when
// it breaks with a gap, nothing is answered from memory until all leasing keys have
// been listed and compared with what memory holds.
//
// When the session ends, everything in memory is forgotten, and the lease revoked if
// the cluster can be reached. A new session begins with an empty memory. Writes need
// no session; those that meet the leasing keys of a dead owner wait for the end of
// its lease.
//
// A cluster that was restored from a backup, or exchanged, ends the session as well
// (clientv3.ClusterChangedError): what memory holds is of a history that is over. The
// watch of the prefix tells as soon as it is served again.
//
// What cannot be defended against is a lease that somebody revokes by hand, or a
// leasing key that somebody deletes: then the owner answers from memory until the
// watch tells it.
package leasing
