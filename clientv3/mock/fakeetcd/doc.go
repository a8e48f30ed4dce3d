// Package fakeetcd is a scripted etcd cluster in memory, for tests that must force
// one interleaving.
//
// Start runs any number of members over one shared store. They speak real gRPC
// over pipes, so any etcd client works with them:
//
//	cluster, err := fakeetcd.Start(3)
//	…
//	defer cluster.Close()
//	client, err := clientv3.New(clientv3.Config{
//		Endpoints:   cluster.Endpoints(),
//		DialOptions: cluster.DialOptions(),
//	})
//
// # Scripting calls
//
// Without a hook, a member answers like etcd 3.7, with the same results and the
// same errors. A hook handles the calls of one method. It is a function of the Call
// that decides when the call is executed and how it is answered:
//
//	// The first Put is applied, and its connection breaks before the reply.
//	cluster.Once("Put", func(c *fakeetcd.Call) {
//		c.Execute()
//		c.BreakConn()
//	})
//
// The points at which a call can be broken are, in order: before Execute; after
// Execute; after SendHeader; after Send, which leaves only the status missing.
// ResetStream and Answer end a call with any status and keep its connection. Hold
// delays it.
//
// # Scripting streams
//
// A watch or keepalive stream is one call. Execute serves it; OnSend then gets each
// response and may delay, modify or drop it, send others, or break the stream or
// the connection. Or a hook serves the stream itself, with any responses in any
// order: Recv returns the client's requests, Send sends responses. In both cases
// the client has received a response when Send returns, so the order of events is
// fixed.
//
// Cluster.SetWatchOptions sets the size from which responses are fragmented,
// enables periodic progress notifications, and makes the members behave like
// kine.
//
// # Scripting connections
//
// Member.Stop refuses new connections and breaks the open ones, until
// Member.Start. Member.Freeze keeps them open and answers nothing, until
// Member.Continue. Member.BreakConnections only breaks them. Cluster.OnDial can
// fail or delay each attempt to connect.
//
// # Inspecting the cluster
//
// Cluster.Calls lists every call in the order of arrival, with its request, its
// metadata and whether it was executed; Cluster.Count counts them and Cluster.Wait
// waits for them. Cluster.Get, Cluster.PutCount and Cluster.Revision read the
// store.
//
// # Where it differs from etcd
//
// The members share one store, so all are always up to date. There is no time unless the test
// starts it: leases live until ExpireLease ends them, or expire by time after EnableLeaseExpiry, at
// their TTL and not up to a second later; leases and their keys are listed in order; tokens live
// until InvalidateTokens; progress is sent only on request, unless WatchOptions say otherwise. Of
// what operators do it has Status, Defragment and Snapshot, and users, roles and permissions that
// are added: other methods of the services Cluster, Maintenance and Auth are unimplemented unless
// a hook answers them, and so are all of Health but Check. The leader changes only by
// SetLeader: a member that is stopped or frozen stays the leader. No member is a learner. A watch
// catches up without pauses, and a client that reads slowly misses no events by a compaction.
// Snapshots have the right form but not the content of a real database. Connections are never
// encrypted. Tests in the project's lab (lab/behaviours) compare the fake with real servers call by
// call; protocol_test.go there lists what they leave out.
package fakeetcd
