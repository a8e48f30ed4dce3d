package pool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/quorate/quorate/pool"
)

// A pool of connections for a protocol with one request at a time.
func Example() {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	var dialer net.Dialer
	conns, err := pool.New(pool.Config[net.Conn]{
		Create: func(ctx context.Context) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", server.Addr().String())
		},
		Destroy:     func(c net.Conn) { _ = c.Close() },
		MaxSize:     2,
		MaxIdleTime: time.Minute,
		WhenFull:    pool.Fail,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conns.Close()

	ctx := context.Background()
	first, _ := conns.Acquire(ctx)
	second, _ := conns.Acquire(ctx)
	_, err = conns.Acquire(ctx)
	fmt.Println(err)

	first.Release()
	third, _ := conns.Acquire(ctx)
	fmt.Println("the same connection again:", third.Value() == first.Value())

	first.Release() // the second Release does not affect the next borrower
	second.Discard()
	stats := conns.Stats()
	fmt.Println(stats.Borrowed, "borrowed,", stats.Destroyed.Discarded, "discarded,", stats.StaleReleases, "released twice")
	// Output:
	// pool: all resources are borrowed, and the pool is at its maximum size
	// the same connection again: true
	// 1 borrowed, 1 discarded, 1 released twice
}

// A check before each loan replaces broken resources.
func ExampleConfig_check() {
	broken := false
	made := 0
	p, err := pool.New(pool.Config[int]{
		Create: func(context.Context) (int, error) { made++; return made, nil },
		Check: func(context.Context, int) error {
			if broken {
				return errors.New("connection reset by peer")
			}
			return nil
		},
		// With CheckAfter: time.Second, recently used resources are not checked.
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	for range 3 {
		r, err := p.Acquire(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Value())
		r.Release()
		broken = !broken
	}
	// Output:
	// 1
	// 2
	// 2
}

// A connection that its server closed while it was idle is detected when it is used. Nothing was
// sent yet, so the request is repeated over a new one.
func ExamplePool_Do() {
	server := "first"
	p, err := pool.New(pool.Config[string]{
		Create: func(context.Context) (string, error) { return "connection to the " + server + " server", nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	request := func(r pool.Resource[string]) error {
		if r.Value() != "connection to the "+server+" server" {
			fmt.Println(r.Value(), "is broken")
			return fmt.Errorf("%w: broken pipe", pool.ErrNotSent)
		}
		fmt.Println("sent over", r.Value())
		return nil
	}

	ctx := context.Background()
	fmt.Println(p.Do(ctx, request))
	server = "second"
	fmt.Println(p.Do(ctx, request))
	// Output:
	// sent over connection to the first server
	// <nil>
	// connection to the first server is broken
	// sent over connection to the second server
	// <nil>
}

// A program warms a pool up, empties it when the server is replaced, and takes a resource out of
// it.
func ExamplePool_Reset() {
	made := 0
	p, err := pool.New(pool.Config[int]{
		Create:  func(context.Context) (int, error) { made++; return made, nil },
		Destroy: func(n int) { fmt.Println("destroyed", n) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	ctx := context.Background()
	fmt.Println(p.CreateResource(ctx), p.CreateResource(ctx))
	r, err := p.TryAcquire(ctx)
	fmt.Println("borrowed", r.Value(), err)
	p.Reset()
	r.Release()

	r, err = p.Acquire(ctx)
	fmt.Println("borrowed", r.Value(), err)
	mine, ok := r.Hijack()
	fmt.Println("taken", mine, ok, p.Stats().Size)
	// Output:
	// <nil> <nil>
	// borrowed 2 <nil>
	// destroyed 1
	// destroyed 2
	// borrowed 3 <nil>
	// taken 3 true 0
}

// A borrowed resource that is only inspected keeps its idle time.
func ExamplePool_AcquireAllIdle() {
	p, err := pool.New(pool.Config[string]{
		Create: func(context.Context) (string, error) { return "connection", nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	if err := p.CreateResource(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range p.AcquireAllIdle() {
		if r.Value() == "" {
			r.Discard()
			continue
		}
		r.ReleaseUnused()
	}
	fmt.Println(p.Stats().Idle)
	// Output:
	// 1
}

// At least two connections are kept open and pinged within 30 s; they are replaced only if that
// fails. Further ones are closed after a minute of idleness. When 16 are borrowed, up to 8 more
// are opened for one loan each.
func ExampleConfig_checkInterval() {
	var dialer net.Dialer
	conns, err := pool.New(pool.Config[net.Conn]{
		Create: func(ctx context.Context) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", "127.0.0.1:6379")
		},
		Destroy: func(c net.Conn) { _ = c.Close() },
		Check: func(ctx context.Context, c net.Conn) error {
			deadline, _ := ctx.Deadline() // always set, see CheckTimeout
			if err := c.SetDeadline(deadline); err != nil {
				return err
			}
			_, err := fmt.Fprint(c, "PING\r\n")
			if err == nil {
				_, err = io.ReadFull(c, make([]byte, len("+PONG\r\n")))
			}
			return errors.Join(err, c.SetDeadline(time.Time{}))
		},
		CheckAfter:    10 * time.Second,
		CheckInterval: 30 * time.Second,
		MinSize:       2,
		MaxSize:       16,
		MaxOverflow:   8,
		MaxIdleTime:   time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	conns.Close()
}
