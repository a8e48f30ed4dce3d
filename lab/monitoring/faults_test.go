package monitoring_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/observe"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	scrapeInterval = 15 * time.Second
	callInterval   = 3 * time.Second
	leaseTTL       = 60
	healthy        = 6 * time.Minute  // before the fault
	clearing       = 12 * time.Minute // after it
)

// program uses etcd and is scraped, in virtual time.
type program struct {
	t        *testing.T
	cluster  *fakeetcd.Cluster
	client   *clientv3.Client
	registry *prometheus.Registry
	scraped  recording
	lease    clientv3.LeaseID

	reading chan struct{} // taken while the reader of the watch does not read
	working sync.WaitGroup
}

func start(t *testing.T) *program {
	t.Helper()
	cluster, err := fakeetcd.Start(3)
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	observer, err := quorateprom.New(registry, quorateprom.Options{Client: "orders"})
	require.NoError(t, err)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), MaxWatchBufferBytes: 64 << 10,
		Observer: observer, Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	return &program{t: t, cluster: cluster, client: client, registry: registry, reading: make(chan struct{}, 1)}
}

// run works, and is scraped, for a time.
func (p *program) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for range scrapeInterval / callInterval {
			p.working.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				_, _ = p.client.Get(ctx, "k") // the observer measures how it ends
				_, _ = p.client.Put(ctx, "k", "v")
			})
			time.Sleep(callInterval)
		}
		p.scraped.scrape(p.t, p.registry, time.Now())
	}
}

// begin begins a watch with a reader, and a lease that is kept alive, until cancel.
func (p *program) begin(ctx context.Context) (cancel func()) {
	ctx, cancel = context.WithCancel(ctx)
	w := p.client.Watch(ctx, "k")
	p.working.Go(func() {
		for range w {
			p.reading <- struct{}{}
			<-p.reading
		}
	})
	lease, err := p.client.Grant(ctx, leaseTTL)
	require.NoError(p.t, err)
	p.lease = lease.ID
	ch, err := p.client.KeepAlive(ctx, lease.ID)
	require.NoError(p.t, err)
	p.working.Go(func() {
		for range ch {
		}
	})
	return cancel
}

// end ends what begin began, and all else.
func (p *program) end(cancel func()) {
	cancel()
	require.NoError(p.t, p.client.Close())
	p.working.Wait()
	p.cluster.Close()
}

// fault is what happens to the cluster or the program.
type fault struct {
	name string
	// begin begins it, and end ends it; nil if it passes by itself.
	begin, end func(p *program)
	lasts      time.Duration
	// want are the alerts that must fire, and may those that may fire as well.
	want, may []string
}

func onAll(f func(*fakeetcd.Member)) func(p *program) {
	return func(p *program) {
		for _, m := range p.cluster.Members() {
			f(m)
		}
	}
}

// hooked passes calls of methods to a hook between begin and end.
func hooked(f fault, hook func(*fakeetcd.Call), methods ...string) fault {
	var hooks []*fakeetcd.Hook
	f.begin = func(p *program) {
		for _, m := range methods {
			hooks = append(hooks, p.cluster.On(m, hook))
		}
	}
	f.end = func(*program) {
		for _, h := range hooks {
			h.Remove()
		}
	}
	return f
}

func faults() []fault {
	return []fault{
		{name: "nothing", begin: func(*program) {}, lasts: time.Minute},
		{
			name: "a member is gone", lasts: 5 * time.Minute,
			begin: func(p *program) { p.cluster.Member(0).Stop() }, end: func(p *program) { p.cluster.Member(0).Start() },
			want: []string{"EtcdClientEndpointOut"}, may: []string{"EtcdClientOutcomesUnknown"},
		},
		{
			name: "the cluster is gone", lasts: 5 * time.Minute,
			begin: onAll((*fakeetcd.Member).Stop), end: onAll((*fakeetcd.Member).Start),
			want: []string{
				"EtcdClientWithoutEndpoint", "EtcdClientNotReady", "EtcdClientEndpointOut", "EtcdClientCallsFail", "EtcdClientCallsSlow",
				"EtcdClientLeaseShort", "EtcdClientLeaseLost",
			},
			may: []string{"EtcdClientOutcomesUnknown"},
		},
		{
			name: "a member comes and goes", lasts: 10 * time.Minute,
			begin: func(p *program) {
				p.working.Go(func() {
					for range 10 {
						p.cluster.Member(1).Stop()
						time.Sleep(20 * time.Second)
						p.cluster.Member(1).Start()
						time.Sleep(40 * time.Second)
					}
				})
			},
			want: []string{"EtcdClientEndpointFlaps"}, may: []string{"EtcdClientOutcomesUnknown", "EtcdClientEndpointOut"},
		},
		hooked(fault{name: "all members are slow", lasts: 8 * time.Minute, want: []string{"EtcdClientCallsSlow"}}, func(call *fakeetcd.Call) {
			time.Sleep(1500 * time.Millisecond)
			call.Answer(call.Execute())
		}, "Range"),
		{
			name: "a connection breaks under a write", lasts: time.Minute,
			begin: func(p *program) { p.cluster.Once("Put", (*fakeetcd.Call).BreakConn) },
			want:  []string{"EtcdClientOutcomesUnknown"},
		},
		hooked(fault{
			name: "the servers fail every read", lasts: 4 * time.Minute,
			want: []string{"EtcdClientRetriesThrottled", "EtcdClientCallsFail"},
			may:  []string{"EtcdClientCallsSlow", "EtcdClientEndpointOut", "EtcdClientEndpointFlaps"},
		}, func(call *fakeetcd.Call) {
			call.Answer(nil, status.Error(codes.Unavailable, "etcdserver: request timed out"))
		}, "Range"),
		hooked(fault{name: "the user name is gone", lasts: 5 * time.Minute, want: []string{"EtcdClientNotReady"}}, func(call *fakeetcd.Call) {
			call.Answer(nil, rpctypes.ErrGRPCUserEmpty)
		}, "Range", "Put"),
		{
			name: "a lease is revoked by somebody", lasts: time.Minute,
			begin: func(p *program) { require.NoError(p.t, p.cluster.ExpireLease(int64(p.lease))) },
			want:  []string{"EtcdClientLeaseLost"},
		},
		{
			name: "a reader is blocked", lasts: 10 * time.Minute,
			begin: func(p *program) {
				p.reading <- struct{}{}
				for range 11_000 {
					_, err := p.cluster.Put("k", strings.Repeat("v", 100))
					require.NoError(p.t, err)
				}
			},
			end:  func(p *program) { <-p.reading },
			want: []string{"EtcdClientWatchReaderBlocked", "EtcdClientWatchLagging"},
		},
	}
}

// TestAlertsFireAndClear injects each fault into a program, and evaluates the rules over the
// metrics scraped meanwhile. Each alert fires under one of them, none while nothing is wrong,
// and none is left at the end.
func TestAlertsFireAndClear(t *testing.T) {
	rules := readRules(t)
	fired := map[string]bool{}
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			var p *program
			var began time.Time
			synctest.Test(t, func(t *testing.T) {
				p = start(t)
				defer p.end(p.begin(t.Context()))
				p.run(healthy)
				began = time.Now()
				f.begin(p)
				p.run(f.lasts)
				if f.end != nil {
					f.end(p)
				}
				p.run(clearing)
			})
			p.check(t, f, rules, began, fired)
		})
	}
	for _, r := range rules {
		require.True(t, fired[r.Alert], "%s never fires", r.Alert)
	}
}

// check evaluates the rules.
func (p *program) check(t *testing.T, f fault, rules []rule, began time.Time, fired map[string]bool) {
	t.Helper()
	end := began.Add(f.lasts + clearing)
	// What looks back an hour is silent only after that.
	for _, r := range rules {
		times := timeline(t, r, &p.scraped, began.Add(-healthy+scrapeInterval), end)
		if len(times) == 0 {
			require.NotContains(t, f.want, r.Alert, "it does not fire")
			continue
		}
		fired[r.Alert] = true
		require.True(t, slices.Contains(f.want, r.Alert) || slices.Contains(f.may, r.Alert), "%s fires at %v", r.Alert, times[0].Sub(began))
		require.True(t, times[0].After(began), "%s fires before the fault", r.Alert)
		if !strings.Contains(r.Expr, "[1h]") {
			require.True(t, times[len(times)-1].Before(end), "%s does not clear", r.Alert)
		}
		t.Logf("%-32s from %v to %v", r.Alert, times[0].Sub(began), times[len(times)-1].Sub(began))
	}
}

// TestMetricsExist runs a program that meets enough for every metric to be there: the rules and the dashboard name no
// other, and the dashboard shows each.
func TestMetricsExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		defer p.end(p.begin(t.Context()))
		p.run(scrapeInterval)
		p.meetAll()
		p.collectAll()
		p.run(scrapeInterval)
		names := p.scraped.names()
		for _, r := range readRules(t) {
			metrics, _ := partsOf(t, r.Expr)
			for _, name := range metrics {
				require.True(t, names[name], "%s asks for %s", r.Alert, name)
			}
		}
		shown := map[string]bool{}
		for _, expr := range expressions(t) {
			metrics, _ := partsOf(t, expr)
			for _, name := range metrics {
				assert.True(t, names[name], "the dashboard asks for %s", name)
				shown[withoutSuffix(name)] = true
			}
		}
		for name := range names {
			assert.True(t, shown[withoutSuffix(name)], "the dashboard does not show %s", name)
		}
	})
}

// withoutSuffix returns the name of a metric that may be one of the series of a histogram.
func withoutSuffix(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// collectAll registers what a program makes beside its client.
func (p *program) collectAll() {
	cached, err := cache.New(p.client, cache.Config{Prefixes: []string{"k"}})
	require.NoError(p.t, err)
	p.t.Cleanup(cached.Close)
	informer, err := cache.NewInformer(cached, cache.InformerConfig[string]{Decode: func(_, value []byte) (string, error) { return string(value), nil }})
	require.NoError(p.t, err)
	once, err := idempotent.New(p.t.Context(), p.client, idempotent.Config{})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = once.Close() }) // the context of the test has ended, and with it the client
	for _, source := range []observe.MetricSource{batch.New(p.client, batch.Config{JoinReads: true}), cached, informer, once, new(leaderelection.Metrics)} {
		require.NoError(p.t, p.registry.Register(quorateprom.NewSourceCollector("orders", source)))
	}
	for _, pools := range []prometheus.Collector{
		quorateprom.NewPoolCollector("sessions", func() pool.Stats { return pool.Stats{} }),
		quorateprom.NewConnectionPoolCollector("backend", func() grpcpool.Stats { return grpcpool.Stats{} }),
	} {
		require.NoError(p.t, p.registry.Register(pools))
	}
}

// meetAll passes what is rare to another observer of the registry.
func (p *program) meetAll() {
	o, err := quorateprom.New(p.registry, quorateprom.Options{Client: "others"})
	require.NoError(p.t, err)
	const method = "/etcdserverpb.KV/Range"
	o.EndpointsSet([]string{"a"})
	o.Resolved(observe.Resolution{Endpoints: 1})
	o.Resolved(observe.Resolution{Err: context.Canceled})
	o.Ejected(observe.Ejection{Endpoint: "a"})
	o.Readmitted(observe.Readmission{Endpoint: "a"})
	o.Retried(observe.Retry{Method: method, Class: "NotSent"})
	o.FailedOver(observe.Failover{Method: method, From: "a"})
	o.HedgeSent(observe.Hedge{Method: method})
	o.HedgeWon(observe.Hedge{Method: method})
	o.OutcomeUnknown(observe.UnknownOutcome{Method: method})
	o.WatchResumed(observe.WatchResumption{Watches: 1})
	o.LeaseRenewed(observe.LeaseRenewal{Margin: time.Second})
	o.LeaseLost(observe.LeaseLoss{})
}
