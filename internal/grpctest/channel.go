package grpctest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// awaitTimeout is far longer than any expected event takes.
const awaitTimeout = time.Minute

// Channel is a resolver.ClientConn that records its calls.
type Channel struct {
	resolver.ClientConn
	// OnUpdate returns what UpdateState does, before the update is recorded. Nil accepts every list.
	OnUpdate func(resolver.State) error

	mu      sync.Mutex
	updates []Update
	errs    []error
	changed chan struct{} // closed and replaced with each update and error
}

// Update is a call of UpdateState.
type Update struct {
	resolver.State
	At time.Time
}

// List returns the addresses of each endpoint, joined by commas.
func (u Update) List() []string {
	list := []string{}
	for _, e := range u.Endpoints {
		var addresses []string
		for _, a := range e.Addresses {
			addresses = append(addresses, a.Addr)
		}
		list = append(list, strings.Join(addresses, ","))
	}
	if u.Endpoints == nil { // gRPC makes an endpoint of each address
		for _, a := range u.Addresses {
			list = append(list, a.Addr)
		}
	}
	return list
}

// NewChannel returns a Channel without updates.
func NewChannel() *Channel { return &Channel{changed: make(chan struct{})} }

// Target returns a parsed target.
func Target(t testing.TB, target string) resolver.Target {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return resolver.Target{URL: *u}
}

// Resolve builds a resolver of a target for a Channel. The caller closes it.
func Resolve(t testing.TB, b resolver.Builder, target string) (*Channel, resolver.Resolver) {
	t.Helper()
	c := NewChannel()
	r, err := b.Build(Target(t, target), c, resolver.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c, r
}

// Follow returns a Channel that has a resolver until the end of the test.
func Follow(t testing.TB, b resolver.Builder, target string) *Channel {
	t.Helper()
	c, r := Resolve(t, b, target)
	t.Cleanup(r.Close)
	return c
}

func (c *Channel) record(add func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add()
	close(c.changed)
	c.changed = make(chan struct{})
}

// UpdateState records a list.
func (c *Channel) UpdateState(s resolver.State) (err error) {
	if c.OnUpdate != nil {
		err = c.OnUpdate(s)
	}
	c.record(func() { c.updates = append(c.updates, Update{s, time.Now()}) })
	return err
}

// ReportError records an error.
func (c *Channel) ReportError(err error) { c.record(func() { c.errs = append(c.errs, err) }) }

// ParseServiceConfig ignores service configs.
func (c *Channel) ParseServiceConfig(string) *serviceconfig.ParseResult { return nil }

// Received returns all updates and errors so far.
func (c *Channel) Received() (updates []Update, errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.updates), slices.Clone(c.errs)
}

// Counts returns the numbers of updates and errors so far.
func (c *Channel) Counts() (updates, errs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.updates), len(c.errs)
}

// Latest returns the last list, nil before the first.
func (c *Channel) Latest() []string {
	updates, _ := c.Received()
	if len(updates) == 0 {
		return nil
	}
	return updates[len(updates)-1].List()
}

// Wait waits until a condition holds, at most for d, and reports whether it does.
func (c *Channel) Wait(d time.Duration, holds func() bool) bool {
	timeout := time.After(d)
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if holds() {
			return true
		}
		select {
		case <-changed:
		case <-timeout:
			return false
		}
	}
}

// Await waits until the last list satisfies a condition.
func (c *Channel) Await(t testing.TB, what string, ok func(addresses []string) bool) {
	t.Helper()
	if !c.Wait(awaitTimeout, func() bool { latest := c.Latest(); return latest != nil && ok(latest) }) {
		_, errs := c.Received()
		t.Fatalf("no list with %s: the last is %.200q, the errors are %.500v", what, c.Latest(), errs)
	}
}

// AwaitAddresses waits until the last list has these addresses, in this order.
func (c *Channel) AwaitAddresses(t testing.TB, want ...string) {
	t.Helper()
	c.Await(t, fmt.Sprintf("%q", want), func(addresses []string) bool { return slices.Equal(addresses, want) })
}

// AwaitCount waits until the last list has n endpoints.
func (c *Channel) AwaitCount(t testing.TB, n int) {
	t.Helper()
	c.Await(t, fmt.Sprint(n, " endpoints"), func(addresses []string) bool { return len(addresses) == n })
}

// AwaitError waits for an error after the first n that contains all texts.
func (c *Channel) AwaitError(t testing.TB, n int, texts ...string) {
	t.Helper()
	found := c.Wait(awaitTimeout, func() bool {
		_, errs := c.Received()
		return slices.ContainsFunc(errs[min(n, len(errs)):], func(err error) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(err.Error(), text) })
		})
	})
	if !found {
		_, errs := c.Received()
		t.Fatalf("no error with %q, only %.500v", texts, errs)
	}
}
