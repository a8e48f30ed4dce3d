package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/grpctest"
)

// log has the lines of this package in gRPC's log.
var log = grpctest.NewLog("quorate-dns")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errServerFailure = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	errNoSuchHost    = &net.DNSError{Err: "no such host", IsNotFound: true}
)

// script is a Resolver with scripted answers.
type script struct {
	mu    sync.Mutex
	addrs map[string][]netip.Addr
	srvs  map[string][]*net.SRV
	errs  map[string]error
	slow  time.Duration
	asked map[string][]time.Time // by name
}

func newScript() *script {
	return &script{
		addrs: map[string][]netip.Addr{}, srvs: map[string][]*net.SRV{},
		errs: map[string]error{}, asked: map[string][]time.Time{},
	}
}

// scripted runs a test in virtual time with a Resolver of its own.
func scripted(t *testing.T, test func(t *testing.T, s *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newScript()) })
}

// has sets the addresses of a name.
func (s *script) has(name string, addrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs[name] = parse(addrs...)
	delete(s.errs, name)
}

func (s *script) hasSRV(name string, records ...*net.SRV) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.srvs[name] = records
	delete(s.errs, name)
}

// fails makes lookups of a name fail.
func (s *script) fails(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs[name] = err
}

// takes sets the duration of lookups.
func (s *script) takes(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = d
}

// times returns the times of the lookups of a name.
func (s *script) times(name string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.asked[name]...)
}

func (s *script) ask(ctx context.Context, name string) error {
	s.mu.Lock()
	s.asked[name] = append(s.asked[name], time.Now())
	slow := s.slow
	s.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return &net.DNSError{Err: "i/o timeout", Name: name, IsTimeout: true}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.errs[name]; err != nil {
		if d, ok := errors.AsType[*net.DNSError](err); ok {
			named := *d
			named.Name = name
			return &named
		}
		return err
	}
	return nil
}

func (s *script) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if err := s.ask(ctx, host); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []netip.Addr
	for _, a := range s.addrs[host] {
		if network == "ip" || network == familyOf(a).network() {
			found = append(found, a)
		}
	}
	return found, nil
}

func (s *script) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service != "" {
		name = "_" + service + "._" + proto + "." + name
	}
	if err := s.ask(ctx, name); err != nil {
		return "", nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return name, append([]*net.SRV(nil), s.srvs[name]...), nil
}

func parse(addrs ...string) []netip.Addr {
	list := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		list[i] = netip.MustParseAddr(a)
	}
	return list
}

// clientConn records the updates of a channel.
type clientConn struct{ *grpctest.Channel }

// updates returns all lists and errors so far: endpoints separated by blanks, addresses by commas.
func (c clientConn) updates() (lists, errs []string) {
	updates, reported := c.Received()
	for _, u := range updates {
		lists = append(lists, strings.Join(u.List(), " "))
	}
	for _, err := range reported {
		errs = append(errs, err.Error())
	}
	return lists, errs
}

// endpoints returns the last list.
func (c clientConn) endpoints() []resolver.Endpoint {
	updates, _ := c.Received()
	return updates[len(updates)-1].Endpoints
}

// requireLists checks all lists so far. It is called in a bubble.
func (c clientConn) requireLists(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	lists, _ := c.updates()
	require.Equal(t, want, lists)
}

// requireErrors checks all errors so far. It is called in a bubble.
func (c clientConn) requireErrors(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	_, errs := c.updates()
	require.Equal(t, want, errs)
}

func newBuilder(t *testing.T, cfg Config) resolver.Builder {
	t.Helper()
	b, err := NewBuilder(cfg)
	require.NoError(t, err)
	return b
}

// open builds a resolver for a target; the caller closes it.
func open(t *testing.T, b resolver.Builder, target string) (resolver.Resolver, clientConn) {
	t.Helper()
	c, r := grpctest.Resolve(t, b, target)
	return r, clientConn{c}
}

// follow returns a channel that is open until the end of the test.
func follow(t *testing.T, b resolver.Builder, target string) clientConn {
	t.Helper()
	return clientConn{grpctest.Follow(t, b, target)}
}
