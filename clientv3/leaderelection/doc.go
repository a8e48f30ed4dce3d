// Package leaderelection runs a function while it holds an election, a lock or a place in a
// semaphore, and lets its writes be executed only while it does.
//
//	err := leaderelection.Run(ctx, client, leaderelection.Config{Name: "controllers/jobs"},
//		func(ctx context.Context, term *leaderelection.Term) error {
//			return work(ctx, term.KV())
//		})
//
// Keys are those of package concurrency: an election is a lock whose key has a value, and both
// exclude each other, concurrency.Mutex and concurrency.Election of the same name, and those of
// the official client.
//
// # When a term ends
//
// A lease lives at least for its TTL from the moment at which the last answered renewal was
// sent. A term ends [Config.Margin] before that: the context of the function is then done, and
// the function has the margin to return before another process can hold the key. The servers
// named at [clientv3.LeaseMonitor.Deadline] may end a lease earlier. A term also ends when its
// lease is revoked or its key is deleted by others; the next holder need not wait for it then.
//
// # Fencing
//
// A process that was paused for longer than its margin goes on as if it held the key, before it
// can notice. So let etcd decide: writes through [Term.KV], and transactions that compare
// [Term.Fence], are refused when the key is gone. Other systems can refuse a [Term.Revision]
// below one that they have seen.
//
// # What it costs
//
// A candidacy is a lease, which is renewed three times in its TTL over the stream that all leases
// of a client share, a transaction that puts the key, and a watch on it and on the one ahead.
// Waiters of an election cost nothing when another one leaves; each waiter of a semaphore
// receives the deletions of all. A fenced write is one transaction, with one comparison more than
// the plain write. After an outage that ends all leases, candidates return within 8 RetryPeriods.
//
// # Servers
//
// etcd and its grpc-proxy. kine has no leases that can be kept alive, and no such transactions.
package leaderelection
