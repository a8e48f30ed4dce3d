// Package watch is the engine of etcd watches. It carries the watches of a
// client over few streams, and keeps each of them ordered, without gaps and
// without duplicates, through everything that can happen to a stream.
//
//	Engine ── shard ── session ── subscription     what the server is asked for
//	            │                      │
//	            └───── watcher ────────┘           what one caller asked for
//	                      ├── catchup              far behind: several subscriptions
//	                      └── buffer ── Sink       what the caller has yet to read
//
// A session and a catchup are pure state machines: they do no I/O, start no
// goroutine and know no time. A session speaks the protocol of one stream at a
// time, and its states and those of a subscription are named, with a table of
// transitions ([state]). A shard does the I/O for a session: one goroutine reads
// its stream, one writes it. A watcher has no goroutine, except while its
// caller reads more slowly than events come: then one empties its buffer.
//
// # Where a watch resumes
//
// A subscription knows the first revision that it has not accepted yet. It moves
// only by an event accepted (its revision + 1) or by progress (its revision
// + 1), and for a watch "from now on" by the revision in the Created reply. The
// header of an event batch proves nothing: etcd puts the store's revision there,
// far ahead of the events, while a watch is behind. Events and progress below
// that revision are dropped. What breaks the rules of the protocol breaks the
// stream: to resume costs a round trip, to guess costs correctness.
//
// # Ids
//
// The engine chooses the ids, so that any number of creates can be on the way,
// and never uses one twice on a stream, because etcd may still send events of an
// id after it confirmed the cancellation. Replies come in the order of requests;
// refused ones carry no id and are matched by that order alone. The first create
// on a stream travels alone: a peer that answers with another id (etcd's
// grpc-proxy) gets one create at a time, since nothing else tells its replies
// apart. A peer that refuses the first create for its id (kine) gets it again
// without one, and all others so. Both hold for the stream: the next one may go
// to another peer.
package watch
