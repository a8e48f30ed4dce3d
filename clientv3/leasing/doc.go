// Package leasing is a KV that serves gets of single keys from memory and is still
// linearizable, because it owns the keys that it serves: no client can write an
// owned key before the owner has released it.
//
//	kv, closeKV, err := leasing.NewKV(client, "_leasing/")
//	if err != nil {
//		…
//	}
//	defer closeKV()
//	resp, err := kv.Get(ctx, "config") // reads from the server and acquires ownership
//	resp, err = kv.Get(ctx, "config")  // reads from memory
//
// A get, or a transaction whose chosen branch only reads, costs no request when all
// its keys are owned. A write of the owner costs one round trip, as always; a write
// of another client costs more, because the owner has to release the key first. So
// use this package for keys that are read much more often than written, and mostly
// by one client.
//
// Reads of ranges and of old revisions go to the server, as do all reads while there
// is no session. They acquire no ownership. The header of a response from memory has
// the revision of the newest response that this KV received from the server: the key
// had the returned value at that revision.
//
// # Requirements
//
// All clients that write a key that may be owned must use this package, or that of
// the official client (they share the layout below), with the same prefix. An owner
// does not see a Put of a plain client. Reads may use any client. Keys below the
// prefix belong to the protocol. Two KVs must not share a lease through
// concurrency.WithLease.
//
// If the program has replaced the client's Lease, the replacement must support
// clientv3.WithLeaseMonitor; otherwise all reads go to the server.
//
// # Layout
//
// The leasing key of a key is the prefix followed by the key, attached to the lease
// of the owner's session. It exists while the key is owned. Its value is empty, or
// "REVOKE" if another client wants to write: the owner then deletes it. The create
// revision of a leasing key identifies its incarnation.
//
// # Why it is linearizable
//
// A client acquires a key with a transaction that reads it and creates its leasing
// key, if there is none. A write carries a guard, a comparison in its own
// transaction: the leasing key does not exist, or is exactly the incarnation that
// the writer owns. A writer whose guard does not hold revokes the leasing key and
// waits until it is deleted. Therefore, while an incarnation exists, only its
// owner's writes change the key. The owner serves from memory if at that moment
//
//  1. the incarnation exists, and
//  2. no write of the owner to the key is in flight, and
//  3. memory holds the result of its last write.
//
// An incarnation is deleted by its owner, which first removes the key from memory and then sends
// the deletion, or with its lease. The lease lives at least its TTL from the send time of the last
// answered renewal, by the owner's clock and less 1 % for clock error, if the leader answered the
// renewal. etcd before 3.5.13 and the grpc-proxy do not ensure that
// (clientv3.LeaseMonitor.Deadline): there a response may be stale while leaders change. The owner
// reads the clock after the value, so a delay before the return does no harm: the value was current
// when the clock was read, which is within the call. The owner also compares the wall clock, which
// shows whether the process was suspended.
//
// A write in flight may be executed long before its response arrives, and others
// may read it meanwhile. So its keys are read from the server until the response
// arrives. The response includes the owned keys as the transaction itself read them
// after its writes; of two responses the one with the higher revision is current. A
// key that is now attached to a lease is released, since it can be deleted without
// a guard.
//
// # Fences
//
// The response to a write may be lost, and the write may be executed much later. If
// the key were read and cached again meanwhile, the late write would go unnoticed. So
// it is fenced off: its incarnation is released and deleted before the key can be
// owned again as another incarnation; from then on the guard of the late write never
// holds. For the same reason a leasing key of this session that is not in memory,
// such as one from an acquisition without a response, is never adopted. It is
// deleted, and the key is acquired again.
//
// A watch event that revokes or deletes a leasing key may overtake the response to
// its acquisition. Such events are recorded while an acquisition is in flight: only
// a newer incarnation enters memory.
//
// A delete of a range may match any number of leasing keys. Its guard requires that
// none was created after the revision at which they were listed, and that all listed
// ones belong to this client and are in memory. A listed one that is not in memory is
// deleted first, and may no longer enter memory. Before a delete of a range that
// contains leasing keys themselves, all of these are released.
//
// # Faults
//
// One watch of the prefix delivers the revocations of others to the owner. It
// carries the acquisitions of all clients, which is little traffic if keys are
// acquired rarely. The correctness of served values does not depend on the watch;
// only the revocations of others need it. Still, when it breaks with a gap, reads go
// to the server until all leasing keys have been listed and compared with memory.
//
// When the session ends, memory is cleared, and the lease is revoked if the cluster
// is reachable. A new session begins with empty memory. Writes need no session; a
// write to a key of a dead owner waits until the owner's lease expires.
//
// If the cluster was replaced or restored from a backup, the session ends as well
// (clientv3.ClusterChangedError): memory belongs to a history that is over. The watch
// of the prefix reports that as soon as it is served again.
//
// There is no protection against a manual revocation of the lease or deletion of a
// leasing key: the owner serves from memory until the watch reports it.
package leasing
