package pool_test

import (
	"context"
	"errors"
	"fmt"
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
