package dns

import (
	"context"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/resolver/internal/news"
)

// channel keeps one gRPC channel up to date.
type channel struct {
	now     func()
	release func()
	cancel  context.CancelFunc
	done    chan struct{}
}

func startChannel(cc resolver.ClientConn, port uint16, feed *news.Feed[knowledge], now, release func()) *channel {
	ctx, cancel := context.WithCancel(context.Background())
	c := &channel{now: now, release: release, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		feed.Serve(ctx, cc, func(k knowledge) news.State { return k.state(port) })
	}()
	return c
}

// ResolveNow has the name looked up as soon as MinInterval allows it.
func (c *channel) ResolveNow(resolver.ResolveNowOptions) {
	if c.now != nil {
		c.now()
	}
}

// Close returns when the channel will not be told anything any more. It does not wait for a
// DNS server.
func (c *channel) Close() {
	c.cancel()
	<-c.done
	c.release()
}
