package resolvers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	_ "github.com/quorate/quorate/balancer/policies" // quorate_round_robin
	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness"
)

const (
	// fewest and most bound the number of backends. No change removes half of them.
	fewest, most = 12, 23
	// shortestCalm and longestCalm bound the time between two faults, in which backends change.
	shortestCalm, longestCalm = 200 * time.Millisecond, 1200 * time.Millisecond
	// shortestHold and longestHold bound how long a fault is held; one in eight takes as long as
	// longOutage more.
	shortestHold, longestHold, longOutage = 300 * time.Millisecond, 2500 * time.Millisecond, 20 * time.Second
	// minPause and maxPause bound the time between two channels that are opened or leave idle mode.
	minPause, maxPause = 5 * time.Millisecond, 50 * time.Millisecond
	// closedTime is how long all channels are closed, now and then, in a fault.
	closedTime = 100 * time.Millisecond
	// awaitTick is the time between two checks while waiting for channels.
	awaitTick = 5 * time.Millisecond
	// fewArrivals is the number of requests in a second, for each channel, that never counts as an overload.
	fewArrivals = 0.5
	// peakToMean bounds the requests in the busiest second by the mean.
	peakToMean = 10
)

// trial is the part of a run that belongs to one resolver.
type trial struct {
	*observer
	cfg      Config
	env      *robustness.Env
	rng      *rand.Rand
	source   *source
	backends *backends

	live     []string // backends that the source is to name
	channels []*channel
	seen     []time.Duration // from a change until all channels have it
	returns  []time.Time     // of the source
}

func newTrial(name string, cfg Config, env *robustness.Env, rng *rand.Rand) *trial {
	return &trial{
		observer: &observer{resolver: name, bound: cfg.bound, counts: env.Counts, views: map[*view]bool{}},
		cfg:      cfg, env: env, rng: rng, backends: newBackends(),
	}
}

// start starts the source and backends, opens channels, and waits until all have the list.
func (t *trial) start() {
	t.env.Cleanup(t.backends.close)
	t.source = sources[t.resolver](t)
	t.live = t.backends.start((fewest + most) / 2)
	t.list(t.live, t.source.list)
	builder := fatal.OK(t.source.builder())
	if t.cfg.wrap != nil {
		builder = t.cfg.wrap(builder, t.source.builder)
	}
	for i := range t.cfg.Channels {
		c := newChannel(i, observedBuilder{builder, t.observer}, t.source.targets, t.backends.dial, t.rng)
		c.openLocked()
		t.channels = append(t.channels, c)
		t.env.Cleanup(func() error { return c.current().Close() })
	}
	t.await("the start")
	t.seen = nil
}

// run uses the channels and injects faults into the source until ctx ends.
func (t *trial) run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error {
		return fatal.Catch(func() { t.useChannels(ctx, rand.New(rand.NewPCG(t.cfg.Seed, uint64(len(t.channels))))) })
	})
	for i, c := range t.channels {
		if c.kind == calling {
			running.Go(func() error {
				t.keepCalling(ctx, c, rand.New(rand.NewPCG(t.cfg.Seed, uint64(i))))
				return nil
			})
		}
	}
	running.Go(func() error { return fatal.Catch(func() { t.injectFaults(ctx) }) })
	if err := running.Wait(); err != nil {
		return fmt.Errorf("%s: %w", t.resolver, err)
	}
	return nil
}

// useChannels makes channels leave idle mode and reopens them until ctx ends.
func (t *trial) useChannels(ctx context.Context, rng *rand.Rand) {
	for pause.For(ctx, pace.Between(rng, minPause, maxPause)) == nil {
		switch c := t.channels[rng.IntN(len(t.channels))]; c.kind {
		case idling:
			c.current().Connect() // this does nothing unless it is idle
		case reopened:
			reopen([]*channel{c}, 0)
		case calling:
		}
	}
}

// reopen closes channels, and opens them again after a time.
func reopen(channels []*channel, after time.Duration) {
	for _, c := range channels {
		c.mu.Lock()
		defer c.mu.Unlock()
		fatal.If(c.conn.Close())
	}
	time.Sleep(after)
	for _, c := range channels {
		c.openLocked()
	}
}

// keepCalling makes calls until ctx ends. One that fails, as it does when its channel is closed, is repeated.
func (t *trial) keepCalling(ctx context.Context, c *channel, rng *rand.Rand) {
	for pause.For(ctx, pace.Between(rng, shortestCalls, longestCalls)) == nil {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := c.call(limited)
		for err != nil && pause.For(limited, shortestCalls) == nil {
			err = c.call(limited)
		}
		cancel()
		if ctx.Err() == nil {
			t.called(err)
		}
	}
}

// injectFaults changes the backends and injects faults until ctx ends.
func (t *trial) injectFaults(ctx context.Context) {
	all := slices.DeleteFunc(append(falseLists(), t.source.faults...), func(f sourceFault) bool {
		return t.cfg.only != "" && f.name != t.cfg.only
	})
	for {
		t.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, f := range all {
			if pause.For(ctx, pace.Between(t.rng, shortestCalm, longestCalm)) != nil {
				return
			}
			t.change("a change")
			t.inject(ctx, f)
		}
	}
}

// inject injects a fault into the source for a while. Then the backends change, so that a channel with the
// new list has an answer of the source after the fault.
func (t *trial) inject(ctx context.Context, f sourceFault) {
	t.counts.Add(t.resolver+" faults", f.name, 1)
	hold := pace.Between(t.rng, shortestHold, longestHold)
	if f.listed == nil && t.rng.IntN(8) == 0 {
		hold += pace.Between(t.rng, 0, longOutage)
	}
	reopens := t.rng.IntN(4) == 0
	what := fmt.Sprintf("%s for %v", f.name, hold.Round(time.Millisecond))
	t.env.Note(t.resolver + ": " + what)
	f.begin()
	if f.listed != nil {
		if !reopens {
			t.listedFalsely()
		}
		t.source.list(t.live[:f.listed(len(t.live))])
	}
	_ = pause.For(ctx, hold/2)
	if reopens {
		reopen(t.channels, closedTime)
	}
	_ = pause.For(ctx, hold/2)
	f.end()
	t.returns = append(t.returns, time.Now())
	t.change(what)
}

// change adds, removes or replaces backends, of which at least one is new, tells the source, and waits until all channels
// have the list. Until then those that are removed serve.
func (t *trial) change(after string) {
	next := slices.Clone(t.live)
	t.rng.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
	kept := min(len(next)-t.rng.IntN(len(next)/3+1), most-1)
	fresh := max(fewest-kept, 1) + t.rng.IntN(most-max(fewest, kept+1)+1)
	t.live = slices.Concat(next[:kept], t.backends.start(fresh))
	t.counts.Add(t.resolver+" changes", "made", 1)
	t.list(t.live, t.source.list)
	t.await(after)
	t.backends.stop(t.live)
}

// await waits until all channels have the list, or one takes too long to.
func (t *trial) await(after string) {
	for !t.settled(after) {
		time.Sleep(awaitTick)
	}
	t.seen = append(t.seen, time.Since(t.good))
}

// checkArrivals checks what arrived at the source in the second after a return.
func (t *trial) checkArrivals(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ran := time.Since(began)
	total := t.arrivedLocked(began, ran)
	mean := float64(total) / ran.Seconds()
	t.counts.Add(t.resolver+" arrivals", "in all", total)
	for _, at := range t.returns {
		second := t.arrivedLocked(at, time.Second)
		t.counts.Max(t.resolver+" arrivals", "in a second after a return at most", second)
		if float64(second) > max(fewArrivals*float64(t.cfg.Channels), peakToMean*mean) {
			t.violatedLocked(Spread, "%d requests arrived in the second after a return of the source; the mean is %.1f a second", second, mean)
		}
	}
}

// kind is what a channel does.
type kind uint8

const (
	// calling channels connect to all backends and make calls all the time; the others connect to one.
	calling kind = iota
	// idling channels enter idle mode, and are connected again.
	idling
	// reopened channels are closed, and opened again.
	reopened
)

// kinds are given to channels in turn.
var kinds = []kind{calling, idling, reopened, idling, reopened, idling, reopened, idling, reopened, idling}

const (
	shortestIdleTimeout, longestIdleTimeout = 300 * time.Millisecond, 3 * time.Second
	// callTimeout is how long calls of a channel may go on failing.
	callTimeout = 5 * time.Second
	// shortestCalls and longestCalls bound the time between two calls of a channel.
	shortestCalls, longestCalls = 20 * time.Millisecond, 120 * time.Millisecond
)

// channel is a gRPC channel, or the next one in its place.
type channel struct {
	kind   kind
	target string
	opts   []grpc.DialOption

	mu   sync.Mutex // held also while it is closed to be opened again
	conn *grpc.ClientConn
}

func newChannel(i int, b resolver.Builder, targets []string, dial func(context.Context, string) (net.Conn, error), rng *rand.Rand) *channel {
	c := &channel{kind: kinds[i%len(kinds)], target: targets[i/len(kinds)%len(targets)]}
	policy := "pick_first"
	if c.kind == calling {
		policy = "quorate_round_robin"
	}
	var idleTimeout time.Duration // never
	if c.kind == idling {
		idleTimeout = pace.Between(rng, shortestIdleTimeout, longestIdleTimeout)
	}
	c.opts = []grpc.DialOption{
		grpc.WithResolvers(b), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + policy + `":{}}]}`),
		grpc.WithIdleTimeout(idleTimeout), grpc.WithNoProxy(), grpc.WithAuthority(service),
	}
	return c
}

// openLocked opens the channel, and has it resolve its target at once.
func (c *channel) openLocked() {
	c.conn = fatal.OK(grpc.NewClient(c.target, c.opts...))
	c.conn.Connect()
}

func (c *channel) current() *grpc.ClientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// call makes a call over the channel.
func (c *channel) call(ctx context.Context) error {
	_, err := healthpb.NewHealthClient(c.current()).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	return err
}

// port is the port of all backends.
const port = 8080

// backends are addresses that only the channels of a run know. One server answers at all of them.
type backends struct {
	server   *grpc.Server
	listener net.Listener

	mu      sync.Mutex
	started int
	conns   map[string][]net.Conn // to the server, by address
}

// newBackends ends with the first error, see package fatal.
func newBackends() *backends {
	listener := fatal.OK(net.Listen("tcp", "127.0.0.1:0"))
	b := &backends{server: grpc.NewServer(), listener: listener, conns: map[string][]net.Conn{}}
	healthpb.RegisterHealthServer(b.server, health.NewServer())
	go func() { _ = b.server.Serve(listener) }() // until close
	return b
}

// start starts n backends, and returns their addresses, which were never used before.
func (b *backends) start(n int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	addresses := make([]string, n)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("10.77.%d.%d:%d", b.started/250, b.started%250+1, port)
		b.conns[addresses[i]] = nil
		b.started++
	}
	return addresses
}

// stop ends the backends that are not in keep.
func (b *backends) stop(keep []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for address, conns := range b.conns {
		if slices.Contains(keep, address) {
			continue
		}
		delete(b.conns, address)
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

func (b *backends) close() error {
	b.stop(nil)
	b.server.Stop()
	return nil
}

// dial connects to the backend of an address.
func (b *backends) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", b.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	conns, ok := b.conns[address]
	if !ok {
		return nil, errors.Join(fmt.Errorf("there is no backend at %s any more", address), conn.Close())
	}
	b.conns[address] = append(conns, conn)
	return conn, nil
}
