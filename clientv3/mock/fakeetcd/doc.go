// Package fakeetcd is a scripted etcd cluster in memory, for tests that must
// force one interleaving rather than hope for it.
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
// Left alone, a member answers as etcd 3.7 does, with the same results and the
// same errors. A hook takes over the calls of one method. It is a function
// that is given the Call, and decides when it is executed and what becomes of
// the answer:
//
//	// The first Put is applied, and its connection breaks before the reply.
//	cluster.Once("Put", func(c *fakeetcd.Call) {
//		c.Execute()
//		c.BreakConn()
//	})
//
// The points at which a call can be broken are, in order: before Execute;
// after Execute; after SendHeader; after Send, which leaves only the status
// missing. ResetStream and Answer end a call with any status while its
// connection lives. Hold keeps it waiting.
//
// # Scripting streams
//
// A watch or keepalive stream is one call. Execute serves it; OnSend then sees
// each response and may hold it, change it, drop it, send others, or break the
// stream or the connection. Or a hook serves the stream by hand, in any order
// and with any nonsense: Recv returns the client's requests, Send sends
// responses. Either way the client has what was sent when Send returns, so that
// what comes next comes after it.
//
// Cluster.SetWatchOptions makes responses small, so that they are divided
// sooner, has progress notified in intervals, and turns the members into
// grpc-proxies.
//
// # Scripting connections
//
// Member.Stop refuses new connections and breaks the open ones, until
// Member.Start. Member.BreakConnections only breaks them. Cluster.OnDial can
// fail or delay each attempt to connect.
//
// # Looking at what happened
//
// Cluster.Calls lists every call in the order of arrival, with its request,
// its metadata and whether it was executed; Cluster.Count counts them and
// Cluster.Wait waits for them. Cluster.Get, Cluster.PutCount and
// Cluster.Revision look into the store.
//
// # Where it differs from etcd
//
// The members share one store, so all are always up to date. Time does not
// pass: leases and tokens live until ExpireLease and InvalidateTokens end
// them, and progress is notified only on request, unless WatchOptions say
// otherwise. A watch catches up without pauses, and its events wait in no
// buffer that could be full. Hashes and snapshots have the right form but not the content of
// a real database. Connections are never encrypted. Tests beside the project's
// lab of real servers (lab/fakecheck) compare the two call by call, and list
// the few answers that still differ.
package fakeetcd
