// Package grpcpool is a pool of gRPC connections to one target. Its [ClientConn] is a
// grpc.ClientConnInterface.
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
// One gRPC connection carries many concurrent calls. Using several in turn rarely helps and
// can hurt. They help in two cases. The figures are from lab/bench/pools, on two cores.
//
// Large messages delay small ones. On a link of 60 MB/s and 2 ms, a small call takes thirty
// times as long beside four streams of 4 MB messages as without them, and even longer if calls
// and streams use several connections in turn; over a separate connection, 1.2 times. So the
// classes [Unary], [Bulk] and [Streams] have separate connections. The class of a call depends
// on its method, the size of its request ([Config].BulkBytes) or its caller ([UseClass]). An
// unused class has no connection.
//
// Servers limit the concurrent streams of a connection, and further calls wait. 256 callers of a
// method that takes 20 ms get 2.5 times the throughput over three connections limited to 100
// streams as over one. So a class opens connections as its calls fill them, up to [Bounds].Max.
// The pool learns the limit from the server, see [Config].TransportCredentials. Without a limit,
// one connection is sufficient.
//
// # How a connection is chosen
//
// A call gets the connection with the fewest calls in flight among those of its class that are
// ready and below the limit. If all are full it waits in FIFO order until a stream ends or a
// new connection is ready. No call queues on a full connection while another might have
// capacity. While the class has no connection yet, the first call goes to the one that is
// connecting, and others wait until its limit is known. A stream counts until it ends; after a
// GOAWAY or the loss of its connection it no longer counts against the limit of new ones.
//
// When fewer connections have sufficed for [Config].IdleTimeout, a surplus one drains: it gets no
// new calls, and is closed after its last one. No call is cut. If the load rises meanwhile, a
// draining connection is reused before a new one is opened.
//
// The pool has a goroutine for each connection, which ends a second after the connection was
// needed no more. A call that does not wait costs a fifth of a microsecond more than without the
// pool, and no allocation.
//
// # Faults
//
// Each connection is an ordinary grpc.ClientConn with the dial options of the user: interceptors,
// resolver, load balancing policy, service config, keepalive and reconnecting are gRPC's. The pool
// retries nothing. A lost connection is avoided while the class has another one that is ready and
// not full; otherwise calls fail or wait as with gRPC, see grpc.WaitForReady. While a connection
// of a class fails to connect, no more are opened. Close ends all calls; waiting ones get
// [ErrClosed].
//
// # With a resolver and several backends
//
// A gRPC channel has a connection to each backend if its policy is round_robin, for example, and
// so has each channel of the pool: three channels to ten backends are thirty connections, and
// three resolvers. The pool adds up the limits of a channel's connections, so it opens a second
// channel only when the calls would fill the first on all backends. The policy still chooses the
// backend of each call. With a policy that holds several connections and uses one, set
// [Config].StreamsPerConnection.
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
