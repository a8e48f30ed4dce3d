// Package pool keeps resources that are costly to make, connections above all, and lends
// each to one borrower at a time.
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
// For gRPC there is something better. A gRPC connection carries many calls at a time, so
// that lending it to one is a waste: see the package grpcpool.
//
// # How it lends
//
// The resource that was used last is lent first: what is not needed becomes old, and is
// given up. A [Config].Check can look at a resource before, and, with a
// [Config].CheckInterval, at idle ones in the background. Who cannot be served waits, first come,
// first served; or gets a resource beyond MaxSize, see [Config].MaxOverflow; or gets [ErrFull],
// see [Config].WhenFull. [Pool.Do] lends a resource to a function, and replaces one that turns
// out to be broken.
//
// Create, Destroy and Check run without locks: while a server takes long to be connected to,
// borrowing and releasing go on. Create and Check run in goroutines of their own, so that an
// Acquire whose context ends returns at once, and what comes too late for it serves the next. A
// goroutine exists while one of them runs, and none otherwise: what expires is found by a
// timer, which is set only while something can expire.
//
// # When something goes wrong
//
//   - Create fails: that Acquire gets the error, and nothing is tried again on its behalf.
//     For [Config].MinSize it is tried again after 1 s, 2 s, 4 s and so on up to a minute, less
//     up to half of it at random.
//   - Destroy or Check panics: whoever called Acquire, Release or Discard gets the panic, and
//     the resource is gone. A panic of a Check whose caller has left ends the program, as does
//     one of Create.
//   - Create hangs: it counts as a resource until [Config].CreateTimeout ends its context.
//   - Check fails, or takes longer than [Config].CheckTimeout: the resource is destroyed, and
//     another is borrowed or made in its place.
//   - A caller's context ends during Check: the resource stays, unless Check finds it broken.
//   - The server restarts: its idle connections fail the next Check, those at [Config].CheckInterval
//     one after the other; or call [Pool.Reset].
//   - Release twice, or Discard after Release: does nothing, even if the resource has
//     another borrower by now. [Stats].StaleReleases counts it.
//   - Close: who waits gets [ErrClosed] at once. What is borrowed is destroyed when it is
//     released. Closing twice does no harm.
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
//	InitialCap           Config.MinSize; it is kept, not only made at the beginning
//	MaxCap               Config.MaxSize
//	MaxIdle              Config.MaxIdle
//	Factory              Config.Create, with a context
//	Close                Config.Destroy
//	Ping                 Config.Check, Config.CheckAfter
//	IdleTimeout          Config.MaxIdleTime, found by a timer rather than by the next Get
//	Get()                Acquire(ctx); it waits, or fails at once with WhenFull: Fail
//	Put(conn)            Resource.Release()
//	Close(conn)          Resource.Discard(), which lets another Acquire go on
//	Release()            Close(), which lets all of them go on
//	Len()                Stats().Idle
//
// For shimingyah/pool, which is one of gRPC connections, see the package grpcpool.
package pool
