// Package pool keeps resources that are expensive to create, such as connections, and
// lends each to one borrower at a time.
//
//	conns, err := pool.New(pool.Config[net.Conn]{
//		Create:      func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) },
//		Destroy:     func(c net.Conn) { _ = c.Close() },
//		MaxSize:     16,
//		MaxIdleTime: time.Minute,
//	})
//	...
//	r, err := conns.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer r.Release() // or r.Discard(), if the connection broke
//	use(r.Value())
//
// For gRPC use package grpcpool: a gRPC connection carries many concurrent calls, so it
// should not be lent to one caller.
//
// # Borrowing
//
// The most recently used resource is lent first, so that surplus resources expire. [Config].Check
// checks a resource before it is lent and, with [Config].CheckInterval, idle ones in the
// background. If all resources are borrowed, a caller waits in FIFO order, gets a resource beyond
// MaxSize ([Config].MaxOverflow), or gets [ErrFull] ([Config].WhenFull). [Pool.Do] lends a
// resource to a function, and replaces a broken one.
//
// Create, Destroy and Check run without locks, so a slow server does not block borrowing and
// releasing. Create and Check run in separate goroutines: an Acquire whose context ends returns
// at once, and its resource goes to the next caller. Only Destroy, of a resource that it cannot use,
// runs in the goroutine of Acquire. Resources that expire, or are idle at Reset or
// Close, are destroyed at the same time, each in a goroutine. The pool has no other goroutines; a
// timer, set only while something can expire, handles expiry.
//
// # Failures
//
//   - Create fails: that Acquire gets the error, and Create is not retried for it.
//     For [Config].MinSize it is tried again after 1 s, 2 s, 4 s and so on up to a minute, less
//     up to half of it at random.
//   - Destroy or Check panics: the caller of Acquire, Release or Discard gets the panic, and
//     the resource is gone. A panic of a Check in the background, or whose caller has returned, ends
//     the program, as does one of Create, or of Destroy in Reset, in Close or at an expiry.
//   - Create hangs: it counts as a resource until [Config].CreateTimeout ends its context.
//   - Check fails, or takes longer than [Config].CheckTimeout: the resource is destroyed, and
//     another is borrowed or made in its place.
//   - A caller's context ends during Check: the resource stays, unless Check finds it broken.
//   - The server restarts: its idle connections fail the next Check, those at [Config].CheckInterval
//     one after the other; or call [Pool.Reset].
//   - Release twice, or Discard after Release: does nothing, even if the resource has
//     another borrower by now. [Stats].StaleReleases counts it.
//   - Close: waiting callers get [ErrClosed] at once. Borrowed resources are destroyed when
//     they are released. A second Close does nothing.
//
// # For users of jackc/puddle
//
//	Constructor          Config.Create; its context ends after CreateTimeout
//	Destructor           Config.Destroy
//	MaxSize              Config.MaxSize
//	Acquire, TryAcquire, CreateResource, AcquireAllIdle, Reset, Hijack
//	                     the same; TryAcquire has one resource made at a time, and pauses
//	                     after Create failed
//	Release, ReleaseUnused
//	                     the same; a second one does nothing, where puddle's panics
//	Destroy()            Resource.Discard(), which returns after Config.Destroy
//	IdleDuration, CreationTime
//	                     Config.MaxIdleTime, Config.MaxLifetime
//	Close()              the same; it does not wait for borrowed resources
//	Stat()               Stats()
//	ErrClosedPool        ErrClosed
//
// # For users of silenceper/pool
//
//	InitialCap           Config.MinSize, which is maintained
//	MaxCap               Config.MaxSize
//	MaxIdle              Config.MaxIdle
//	Factory              Config.Create, with a context
//	Close                Config.Destroy
//	Ping                 Config.Check, Config.CheckAfter
//	IdleTimeout          Config.MaxIdleTime, found by a timer rather than by the next Get
//	Get()                Acquire(ctx); it waits, or fails at once with WhenFull: Fail
//	Put(conn)            Resource.Release()
//	Close(conn)          Resource.Discard(), which serves another Acquire
//	Release()            Close(), which ends all waiting calls
//	Len()                Stats().Idle
//
// For shimingyah/pool, which is one of gRPC connections, see the package grpcpool.
package pool
