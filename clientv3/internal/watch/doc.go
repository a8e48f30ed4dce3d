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
// time; the states of a subscription have names ([state]). A shard does the I/O for
// a session: one goroutine reads its stream, one writes it. A watcher has a goroutine
// only while its caller reads more slowly than events arrive: it empties the buffer.
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
// stream may reach another peer. Over a protobuf client of the program, which may be
// a mock, creates carry no id and are sent one at a time.
//
// # Slow readers and large responses
//
// A slow reader has a buffer, bounded in bytes for the watch and for all watches of a
// client ([Budget]). The response in the caller's channel counts, and so does an
// incomplete revision. At the bound the engine cancels the watch on the server, and
// creates it again, from where it stopped, when half of the buffer is read. A paused
// watch costs the server nothing: etcd 3.5 used 7 % of a CPU with 100 paused watches at
// 130 puts a second, 7 % with no watch, 11 % with 100 that are read. A stream that is
// not read would cost it as little, but delay every other watch on it.
//
// etcd sends a watch that is behind up to 1,000 revisions in one response, whatever
// their size. So the engine asks for fragments of about --max-request-bytes (1.5 MiB)
// and merges what fits in three quarters of what the watch may hold; of the rest it
// delivers each revision when it is complete. A client with a MaxCallRecvMsgSize asks
// for fragments only if its caller does. A watch with a large backlog has a
// dedicated stream, and one that is thousands of revisions behind is split into parts of history.
//
// # Streams
//
// Callers with equal metadata share streams: 1,000 watches each at most, fewer above
// 10,000 events a second. Every stream requires a leader, so a member that loses its
// leader ends it. If no member has a leader, callers that do not require one are
// served without, and a strict stream is tried meanwhile. The watches move when a
// server accepts it; a watch of an empty range, which etcd refuses, shows that.
//
// A stream asks for progress once a minute, so that a quiet watch can be resumed after
// a compaction. A stream on which nothing was ever answered is given up after 10 s: a
// member behind a proxy may hang while another one answers probes.
package watch
