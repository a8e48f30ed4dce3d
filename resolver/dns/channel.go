package dns

import (
	"context"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/resolver/internal/feed"
)

// channel is the resolver of one gRPC channel.
type channel struct {
	now     func()
	release func()
	cancel  context.CancelFunc
	done    chan struct{}
}

func startChannel(cc resolver.ClientConn, port uint16, f *feed.Feed[update], now, release func()) *channel {
	ctx, cancel := context.WithCancel(context.Background())
	c := &channel{now: now, release: release, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		f.Serve(ctx, cc, func(k update) feed.State { return k.state(port) })
	}()
	return c
}

// ResolveNow requests a lookup, which starts as soon as MinInterval allows it.
func (c *channel) ResolveNow(resolver.ResolveNowOptions) {
	if c.now != nil {
		c.now()
	}
}

// Close returns when the channel receives no more updates. It does not wait for a DNS server.
func (c *channel) Close() {
	c.cancel()
	<-c.done
	c.release()
}
