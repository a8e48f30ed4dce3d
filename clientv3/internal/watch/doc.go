// Package watch is the engine of etcd watches. It carries the watches of a client
// over a few streams, and keeps each watch ordered, without gaps or duplicates,
// through all faults of a stream.
//
//	Engine ── shard ── session ── subscription     what the server is to deliver
//	            │                      │
//	            └───── watcher ────────┘           what one caller asked for
//	                      ├── catchup              far behind: several subscriptions
//	                      └── buffer ── Sink       what the caller has not read yet
//
// A session and a catchup are pure state machines: they do no I/O, start no
// goroutine and read no clock. A session speaks the protocol of one stream at a
// time; the states of a subscription have names and a table of transitions
// ([state]). A shard does the I/O for a session: one goroutine reads its stream,
// one writes it. A watcher has a goroutine only while its caller reads more slowly
// than events arrive: it empties the buffer.
//
// # Where a watch resumes
//
// A subscription records the first revision that it has not accepted yet. Only
// three things advance it: an accepted event (to its revision + 1), progress (to
// its revision + 1), and, for a watch "from now on", the revision in the Created
// reply. The header of an event batch proves nothing: while a watch is behind, etcd
// puts the store's revision there, far ahead of the events. The subscription drops
// events and progress below the recorded revision. A violation of the protocol
// resets the stream: resuming costs a round trip, guessing costs correctness.
//
// # Ids
//
// The engine chooses the ids, so any number of creates can be in flight. It never
// uses an id twice on a stream, because etcd may still send events for an id after
// confirming its cancellation. Replies arrive in the order of requests; a refusal
// carries no id and is matched by order alone. The first create on a stream is sent
// alone. If the peer answers with another id (etcd's grpc-proxy), it gets one
// create at a time, since its replies can be matched only by order. If the peer
// refuses the first create because of its id (kine), the create is repeated without
// an id, and all further creates carry none. Both apply to the stream: the next
// stream may reach another peer.
package watch
