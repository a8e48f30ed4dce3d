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

// Connections of a protocol that carries one request at a time.
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

	first.Release() // a second time: nothing happens to who has it now
	second.Discard()
	stats := conns.Stats()
	fmt.Println(stats.Borrowed, "borrowed,", stats.Destroyed.Discarded, "discarded,", stats.StaleReleases, "released twice")
	// Output:
	// pool: all resources are borrowed, and there may be no more
	// the same connection again: true
	// 1 borrowed, 1 discarded, 1 released twice
}

// A check before a resource is borrowed replaces what has broken in the meantime.
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
		// CheckAfter: time.Second would trust what was used a moment ago.
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

// A connection that its server closed while it was idle is noticed when it is used. Nothing was
// sent then, so the request may go over a new one.
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

// A pool can be warm before its users come, be emptied when the server is exchanged, and give a
// resource away for good.
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

// What is idle can be looked at without being younger for that.
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

// Connections that are kept warm: two at least are there, pinged within 30 s, and never replaced
// as long as that succeeds. Those beyond go after a minute. When 16 are borrowed, 8 more serve one
// borrower each.
func ExampleConfig_checkInterval() {
	var dialer net.Dialer
	conns, err := pool.New(pool.Config[net.Conn]{
		Create: func(ctx context.Context) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", "127.0.0.1:6379")
		},
		Destroy: func(c net.Conn) { _ = c.Close() },
		Check: func(ctx context.Context, c net.Conn) error {
			deadline, _ := ctx.Deadline() // there is one
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
