// Package fakecheck holds the fake of package fakeetcd to the behaviour of a real etcd server. It consists of tests.
//
// A test is a program: a function that makes calls and writes each, with its responses and its status, to a transcript.
// It runs once against a fake member and once against a member of the etcd that the lab carries, both empty at the
// start, and the two transcripts must be equal. Some programs are scripts, over authentication, membership, maintenance
// and the streams; others draw calls at random from a seed that is part of the test's name, so that
//
//	go test ./fakecheck -run TestRandomCalls -seed 42
//
// repeats one run exactly, and other seeds look further than CI does.
//
// What may differ in a response stands with its reason in one table, differences, and is levelled before the
// comparison. The calls that are known to be answered differently stand in another, divergences, and a test shows that
// each still is; all other programs stay away from them. They also stay away from
//
//   - what the fake leaves out on purpose: time that passes, the contents of a database file, progress without
//     a request;
//   - what etcd decides by chance: how events are divided among the responses of a watch that catches up with writes
//     under way, and the order of equal keys in a sort of more than twelve;
//   - crashes of etcd 3.7.3: a transaction must not put a key that it also deletes, but the check for that overlooks
//     deletions of every key from one on. The server then panics at once if the put has ignore_value or ignore_lease;
//     otherwise it loses the key when that very revision is compacted, and panics when it next reads it.
package fakecheck
