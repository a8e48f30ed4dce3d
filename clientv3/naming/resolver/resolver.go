package resolver

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	gresolver "google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/lastgood"
)

const (
	// scheme is the scheme of the targets.
	scheme = "etcd"

	// maxListAge is how long the last list of a service is kept after its last channel closed or
	// went idle: long enough for channels that go idle after half an hour, as they do by default.
	maxListAge = time.Hour

	defaultMassRemovalDelay = 15 * time.Second
)

// Config configures a resolver. The zero value is suitable for most programs.
type Config struct {
	// ReportAfter is how long etcd may be unreachable before that is reported to the channel and
	// gRPC's log. The default, 1 s, is longer than an election in a healthy network or a
	// reconnection, which are not reported. It is short enough that calls with deadlines of
	// seconds, made before the first list, fail with the reason instead of DeadlineExceeded.
	ReportAfter time.Duration

	// MassRemovalDelay is how long endpoints are kept if so many disappear at once that fewer
	// than half remain: for example when servers lose contact with etcd, but not with their
	// callers. Time while etcd is unreachable does not count. New endpoints are used at once.
	// Default 15 s, as in resolver/dns; negative: no delay.
	MassRemovalDelay time.Duration

	// Decode returns the address and the metadata of a value, for keys in another format than that of package endpoints.
	// A value for which it fails is skipped, as an invalid one is. It must not block.
	Decode func(value []byte) (address string, metadata any, err error)
}

// NewBuilder returns a resolver builder for targets with the scheme "etcd", for
// grpc.WithResolvers. The client must stay open for as long as channels use it.
// It fails if the client is nil.
//
// It is New with a random order of endpoints for each channel, and without a delay of removals.
func NewBuilder(client *clientv3.Client) (gresolver.Builder, error) {
	b, err := New(client, Config{MassRemovalDelay: -1})
	if err != nil {
		return nil, err
	}
	return spreading{b}, nil
}

// New returns a resolver builder for targets with the scheme "etcd", for grpc.WithResolvers. The
// client must stay open for as long as channels use it. The error names the invalid field of the
// configuration, or what the client lacks.
//
// All channels of a builder to one service share its endpoints. A channel that opens or
// leaves idle mode while etcd is unreachable starts with the last list, which is kept for
// an hour after the last channel.
//
// Build starts to follow the endpoints of a target and does not block. Its error has
// codes.InvalidArgument if the target names no service.
func New(client *clientv3.Client, cfg Config) (gresolver.Builder, error) {
	switch {
	case client == nil:
		return nil, errors.New("etcd: the client is nil; give one that clientv3.New returned")
	case client.KV == nil || client.Watcher == nil:
		return nil, errors.New("etcd: the client has no KV or Watcher service; give one that clientv3.New returned")
	case cfg.ReportAfter < 0:
		return nil, fmt.Errorf("etcd: ReportAfter is %v: it cannot be negative; 0 means 1s", cfg.ReportAfter)
	}
	cfg.MassRemovalDelay = cmp.Or(cfg.MassRemovalDelay, defaultMassRemovalDelay)
	return builder{lastgood.NewRegistry(maxListAge, func(service string, last []gresolver.Endpoint, _ bool) *source {
		return startSource(client, cfg, service, last)
	})}, nil
}

// builder has one source for each service that channels use.
type builder struct {
	sources *lastgood.Registry[string, *source, []gresolver.Endpoint]
}

func (builder) Scheme() string { return scheme }

func (b builder) Build(target gresolver.Target, cc gresolver.ClientConn, _ gresolver.BuildOptions) (gresolver.Resolver, error) {
	service := target.Endpoint()
	if service == "" {
		return nil, status.Errorf(codes.InvalidArgument,
			"etcd: the target %q names no service; it has to have the form etcd:///service", target.URL.Redacted())
	}
	return b.sources.Acquire(service).Resolve(cc, nil, func() { b.sources.Release(service) }), nil
}

// spreading is a builder whose channels have the endpoints in a random order.
type spreading struct{ gresolver.Builder }

// Build starts to follow the endpoints of a target and does not block. Its error has
// codes.InvalidArgument if the target names no service.
func (b spreading) Build(target gresolver.Target, cc gresolver.ClientConn, opts gresolver.BuildOptions) (gresolver.Resolver, error) {
	return b.Builder.Build(target, spread{cc, maphash.MakeSeed()}, opts)
}

// spread passes endpoints to a channel in a random order that is fixed for the channel, so
// that channels which use the first endpoint are spread over all endpoints.
type spread struct {
	gresolver.ClientConn
	order maphash.Seed
}

// UpdateState sorts the endpoints and passes the state on.
func (s spread) UpdateState(state gresolver.State) error {
	state.Endpoints = slices.SortedFunc(slices.Values(state.Endpoints), func(a, b gresolver.Endpoint) int {
		return cmp.Compare(maphash.String(s.order, Key(a)), maphash.String(s.order, Key(b)))
	})
	return s.ClientConn.UpdateState(state)
}
