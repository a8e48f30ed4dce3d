// Package lab runs a cluster of real etcd processes on one machine, with every link
// between them and to their clients under control.
//
// [Start] starts the members as processes of the running program itself, which
// carries the etcd server, or of another etcd executable. They are therefore real
// processes: [Member.Freeze] stops one as a hung host does, [Member.Kill] ends one
// as a crash does. Clients reach a member through its [Cluster.ClientLink], and
// every member reaches every other through a link of its own, [Cluster.PeerLink],
// so that each way can be cut, blackholed and delayed alone; see package link.
//
// A program, or the TestMain of a package, that starts a cluster calls [Main]
// before anything else:
//
//	func TestMain(m *testing.M) {
//		lab.Main()
//		goleak.VerifyTestMain(m)
//	}
//
// [Cluster.Close] leaves nothing behind. When the program crashes instead, the
// kernel kills the members on Linux. Elsewhere those that are the program itself
// notice the end of a pipe, unless they are frozen, and others live on. Their
// files stay in [Config].Dir. Linux, macOS and the BSDs are supported.
package lab
