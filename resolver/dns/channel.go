package dns

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/resolver"
)

// channel keeps one gRPC channel up to date. It has a goroutine of its own, so that a
// channel that is slow to take news keeps nobody else waiting.
type channel struct {
	cc       resolver.ClientConn
	port     uint16
	feed     *feed
	now      func()
	schedule schedule // of attempts to publish what gRPC would not take
	release  func()
	cancel   context.CancelFunc
	done     chan struct{}

	// What follows belongs to the goroutine.
	told    news
	refused int // how often in a row gRPC would not take the list
}

func startChannel(cc resolver.ClientConn, port uint16, f *feed, now, release func(), s schedule) *channel {
	ctx, cancel := context.WithCancel(context.Background())
	c := &channel{
		cc: cc, port: port, feed: f, now: now, schedule: s, release: release,
		cancel: cancel, done: make(chan struct{}),
	}
	go c.run(ctx)
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

func (c *channel) run(ctx context.Context) {
	defer close(c.done)
	for ctx.Err() == nil {
		latest, changed := c.feed.read()
		c.tell(latest)
		var again <-chan time.Time
		if c.refused > 0 {
			again = time.After(c.schedule.afterFailure(c.refused))
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-again:
		}
	}
}

// tell publishes what is new. An empty list is published, so that connections end, and then
// reported, so that calls fail with the reason. If there was no list before, reporting is all
// that is needed; some policies would show a text of their own for an empty list.
func (c *channel) tell(latest news) {
	if c.refused > 0 || !slices.EqualFunc(latest.backends, c.told.backends, backend.equal) {
		err := c.cc.UpdateState(resolver.State{Endpoints: endpoints(latest.backends, c.port)})
		if err != nil && len(latest.backends) > 0 { // policies refuse what is empty
			c.refused++
		} else {
			c.refused = 0
		}
	}
	if latest.problem != nil && latest.problem != c.told.problem {
		c.cc.ReportError(latest.problem)
	}
	c.told = latest
}
