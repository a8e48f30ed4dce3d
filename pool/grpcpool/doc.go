// Package grpcpool is a pool of gRPC connections to one target, that is used as one:
// [ClientConn] is a grpc.ClientConnInterface.
//
//	conn, err := grpcpool.NewClient("dns:///greeter.example.com:443", grpcpool.Config{
//		TransportCredentials: credentials.NewTLS(&tls.Config{}),
//	})
//	...
//	defer conn.Close()
//	client := pb.NewGreeterClient(conn)
//
// # When several connections help
//
// One gRPC connection carries many calls at a time, and blindly using several in turn makes
// little faster and some things slower. There are two cases in which they help. The figures
// are those of lab/bench/pools, on two cores.
//
// Large messages stand in the way of small ones. On a link of 60 MB/s and 2 ms, a small call
// takes thirty times as long beside four streams of 4 MB messages as without them, and still
// longer if calls and streams go to several connections in turn; over a connection of its own,
// 1.2 times. So there are classes of traffic with connections of their own: [Unary],
// [Bulk] and [Streams]. A call is put into its class by its method, by the size of its
// request ([Config].BulkBytes) or by its caller ([UseClass]). A class that is not used has
// no connection.
//
// The server allows a number of streams at a time on a connection, and calls beyond it wait.
// 256 callers of a method that takes 20 ms get 2.5 times as many answers over three
// connections that are limited to 100 streams as over one. So a class has as many connections
// as its calls fill, up to [Bounds].Max. The pool learns the limit from the server, see
// [Config].TransportCredentials. If there is none, one connection it is.
//
// # How a connection is chosen
//
// Of the connections of its class that are connected and below the limit, a call gets the
// one with the least in flight. If all are full it waits, first come, first served, for the
// first of: a stream that ends, a new connection that is ready. No call is sent into the queue
// of a connection that is full while another might have room. While the class has no
// connection yet, the first call is put on the one that is being made, and others wait until
// it has told its limit. A stream counts until it ends; on a connection that the server has
// sent away (GOAWAY), or that is lost, it takes no place from what comes after.
//
// When fewer connections have been enough for [Config].IdleTimeout, one that is too many
// drains: it is given no calls, and closed when the last on it has ended. Nothing is cut. If
// calls become more in the meantime, it is taken back before a new one is opened.
//
// There are no goroutines but gRPC's own, except while calls wait for a connection to be
// made, and for a second after one was given up. A call that need not wait costs a fifth of a
// microsecond more than without the pool, and no allocation.
//
// # Under a fault
//
// Each connection is an ordinary grpc.ClientConn with the dial options of the user:
// interceptors, a resolver, a load balancing policy, service config, keepalive, reconnecting
// are gRPC's. The pool retries nothing. A connection that is lost is avoided while the class
// has another one that is ready and not full; when none is, calls fail or wait as they do
// with gRPC, see grpc.WaitForReady. While a connection of a class cannot be made, no more are
// opened. Close ends all calls and wakes all that wait, with [ErrClosed].
//
// # With a resolver and several backends
//
// A channel of gRPC has a connection to each backend if its policy is round_robin, for
// example, and so has each channel of the pool: three channels to ten backends are thirty
// connections, and three resolvers. The pool adds up the limits of a channel's connections;
// so it opens a second channel only when the calls would fill the first on all backends. Which
// of these a call goes to, and waits for, is the policy's choice, as ever. With a policy that
// holds several connections and uses one, set [Config].StreamsPerConnection.
//
// # For users of shimingyah/pool
//
//	Dial                     the target and dial options of NewClient
//	MaxIdle (8)              Bounds.Min, for each class
//	MaxActive (64)           Bounds.Max, for each class
//	MaxConcurrentStreams     Config.StreamsPerConnection; what the server allows needs no setting
//	(64)
//	Reuse                    always true: connections are shared, calls beyond all limits wait
//	Get()                    nothing: the pool is what generated clients take
//	Conn.Value()             the pool
//	Conn.Close()             nothing: a call is counted from its beginning to its end
//	Close()                  Close()
//	Status()                 Stats(); GetState(), Connect(), Target() as of a *grpc.ClientConn
//
// For silenceper/pool, which lends each connection to one borrower, see the package pool.
package grpcpool
