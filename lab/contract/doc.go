// Package contract proves that a program written for the official etcd client behaves the same when its import alone
// is changed to Quorate.
//
// The program is written once, in package official, against go.etcd.io/etcd/client/v3. Package quorate is generated
// from it by reimport, which changes that import path and nothing else; a test fails when it is stale. Both run against
// clusters of their own that are alike, plain and with TLS, etcd 3.7 and etcd 3.4, authentication off and on. Each step
// of the program writes its result and its error to a [transcript.Log], and the two transcripts must be equal.
//
// Where Quorate differs on purpose, the difference and its reason stand in one table beside the test.
package contract

//go:generate go run ./reimport official quorate
