// Package lease keeps all leases of a client alive over one stream.
//
// # The parts
//
// [Machine] is a state machine without I/O, goroutines or a clock: its input is
// events with their times, its output the requests to send. [State] lists the
// states of a lease; the tests contain the table of transitions.
//
// [Engine] does the I/O. One goroutine opens the stream and reads it, one writes
// it, and a timer advances the machine's time.
//
// # Guarantees
//
// The validity of a lease counts from the send time of the answered request: the
// leader counts from a later moment. This holds for servers whose answers come from
// the leader: etcd from 3.5.13 on, but not through the grpc-proxy.
//
// A renewal is due a third of the TTL after the previous one was sent, or a little
// earlier: leases that are due at about the same time share a batch, and each lease
// is moved forward by a small random time, so clients that started together drift
// apart. A lease whose latest request was sent together with others, because it is
// new or was sent again, gets a random time from the whole second half of that
// third.
//
// At most one request per lease is in flight on a stream: answers arrive in the
// order of requests, so a second one would only wait behind the first. When the
// stream is lost, all unanswered requests are sent again on the next one, the lease
// that expires first in front. The engine also closes a stream that has unanswered requests
// and stays silent, see [Machine.Silent], unless members are known to be slow.
package lease
