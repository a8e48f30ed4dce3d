// Package behaviours is a corpus of the behaviours of etcd clients and servers that programs can observe. Each is written
// once, against go.etcd.io/etcd/client/v3.
//
// Most record the result and the error of each step in a [transcript.Log]. The transcripts of the official client and of Quorate
// on one server must be equal, and so must those of etcd 3.7 and of package fakeetcd. Intended differences are listed with their
// reasons in [Deliberate] and in the tests. Other behaviours check what they see: faults, loads, and what kine has too.
//
// A behaviour with an area is a row of docs/servers.md and runs on every server.
//
// With Quorate a behaviour runs in a process of its own: the command program, compiled with the shim in place of the
// official module. Setups are plain and with TLS, etcd 3.7 and etcd 3.4, authentication off and on.
package behaviours
