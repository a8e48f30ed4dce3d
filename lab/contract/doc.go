// Package contract proves that a program written for the official etcd client behaves the same over Quorate.
//
// Package scenarios is the program, written against go.etcd.io/etcd/client/v3. With the official client it runs in the test.
// With Quorate it is a process of its own: the command program is compiled with the shim in place of the official module.
// Both run against clusters of their own that are alike, plain and with TLS, etcd 3.7 and etcd 3.4, authentication off and
// on. Each step writes its result and its error to a [transcript.Log], and the two transcripts must be equal.
//
// Where Quorate differs on purpose, the difference and its reason stand in one table beside the test.
package contract
