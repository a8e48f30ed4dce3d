// Package lease keeps leases alive: all those of a client over one stream.
//
// # The parts
//
// [Machine] decides. It is a state machine without I/O, goroutines or a clock:
// it is told what happened and at which time, and says what is to be sent. The
// states of a lease are those of [State]; its tests hold the table of
// transitions.
//
// [Engine] acts. One goroutine opens the stream and reads it, one writes it, and
// a timer tells the machine that time has passed.
//
// # What is promised
//
// The validity of a lease counts from when the request was sent whose answer is
// here: the leader counts from a moment after that. It takes a server that answers
// for the leader: etcd from 3.5.13 on, not through the grpc-proxy.
//
// A renewal is due a third of the TTL after the one before was sent, or a little
// earlier: leases that are due at about the same time go together, and each is
// drawn a little forward, so that clients which began together drift apart. A lease
// whose latest request was not sent at a time of its own, because it is new or was
// sent again together with others, draws from the whole second half of that third.
//
// At most one request of a lease is unanswered on a stream: answers come in the
// order of requests, so that a second one would only wait behind the first. When
// the stream is lost, everything unanswered is sent again on the next one, the
// lease that ends soonest first. A stream is also given up when it owes answers
// and stays silent, see [Machine.Silent], unless members are known to be slow.
package lease
