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
