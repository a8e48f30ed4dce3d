// Package behaviours is the corpus of what a program sees of an etcd client and a server, each behaviour written once against
// go.etcd.io/etcd/client/v3.
//
// Most record the result and the error of each step in a [transcript.Log]. The transcripts of the official client and of Quorate
// on one server must be equal, and so must those of etcd 3.7 and of package fakeetcd. What differs on purpose stands, with its
// reason, in [Deliberate] and beside the tests. Others check what they see: faults, loads, and what kine has too.
//
// A behaviour with an area is a row of docs/servers.md, on every server.
//
// With Quorate a behaviour is a process of its own: the command program is compiled with the shim in place of the official
// module. Setups are plain and with TLS, one member and three, etcd 3.7 and etcd 3.4, authentication off and on.
package behaviours
