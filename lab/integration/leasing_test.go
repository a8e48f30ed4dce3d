package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/link"
)

const (
	// loadTime is how long the load runs at least: some losses of a session on either side. On a machine that is short of
	// CPU it runs until all has happened that the test is about, for mostTime at most.
	loadTime, mostTime = 12 * time.Second, 2 * time.Minute
	// sessionTTL is the shortest that the server grants, in seconds.
	sessionTTL = 1
	// callTime bounds a call; a client that is cut off needs it.
	callTime      = 700 * time.Millisecond
	callersOfSite = 3
	// latency is that of each direction between a site and the server. The plain
	// reader has none, and sees what sites write before they do.
	latency = 3 * time.Millisecond
)

// site is a client that can be cut off, with a leasing KV.
type site struct {
	link   *link.Link
	kv     clientv3.KV
	grants atomic.Int64 // sessions that were begun
	// free counts the reads that cost no request, of all.
	free, reads atomic.Int64
}

// costKey is the key of the counter of a call's requests in its context.
type costKey struct{}

func newSite(t *testing.T, prefix string) *site {
	t.Helper()
	l, err := link.Listen(strings.TrimPrefix(cluster.Members()[0].DirectEndpoint(), "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	s := &site{link: l}
	s.connect()
	c := labtest.Client(t, clientv3.Config{Endpoints: []string{"http://" + l.Addr()}, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(s.count)}})
	kv, closeKV, err := leasing.NewKV(c, prefix, concurrency.WithTTL(sessionTTL))
	require.NoError(t, err)
	t.Cleanup(closeKV)
	s.kv = kv
	return s
}

// connect puts the site's link in order.
func (s *site) connect() { s.link.Set(link.Both, link.Condition{Delay: latency}) }

func (s *site) count(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if cost, ok := ctx.Value(costKey{}).(*atomic.Int64); ok {
		cost.Add(1)
	}
	if method == pb.Lease_LeaseGrant_FullMethodName {
		s.grants.Add(1)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// randomCalls is a run of random calls.
type randomCalls struct {
	history
	prefix string
	values atomic.Int64
}

func (l *randomCalls) key(r *rand.Rand) string { return fmt.Sprint(l.prefix, r.IntN(4)) }

// value returns one that is written once.
func (l *randomCalls) value() string { return fmt.Sprint("v", l.values.Add(1)) }

// get reads one key.
func (l *randomCalls) get(ctx context.Context, kv clientv3.KV, key string) {
	c := call{what: "get", floor: l.begin()}
	resp, err := kv.Get(ctx, key)
	if err != nil {
		return
	}
	c.revision, c.read = resp.Header.Revision, map[string]string{key: valueOf((*pb.RangeResponse)(resp))}
	l.end(c)
}

// getBoth reads two keys at once.
func (l *randomCalls) getBoth(ctx context.Context, kv clientv3.KV, one, other string) {
	c := call{what: "get both", floor: l.begin()}
	resp, err := kv.Txn(ctx).Then(clientv3.OpGet(one), clientv3.OpGet(other)).Commit()
	if err != nil {
		return
	}
	c.revision, c.read = resp.Header.Revision, map[string]string{
		one:   valueOf(resp.Responses[0].GetResponseRange()),
		other: valueOf(resp.Responses[1].GetResponseRange()),
	}
	l.end(c)
}

func (l *randomCalls) put(ctx context.Context, kv clientv3.KV, key string) {
	c := call{what: "put", floor: l.begin(), wrote: map[string]string{key: l.value()}}
	resp, err := kv.Put(ctx, key, c.wrote[key])
	if err != nil {
		return
	}
	c.revision = resp.Header.Revision
	l.end(c)
}

// replace reads a key and replaces what it read.
func (l *randomCalls) replace(ctx context.Context, kv clientv3.KV, key string) {
	before, err := kv.Get(ctx, key)
	if err != nil || len(before.Kvs) == 0 {
		return
	}
	old := before.Kvs[0]
	c := call{what: "replace", floor: l.begin()}
	value := l.value()
	resp, err := kv.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", old.ModRevision)).
		Then(clientv3.OpPut(key, value)).
		Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return
	}
	c.revision = resp.Header.Revision
	if resp.Succeeded {
		c.wrote, c.expected = map[string]string{key: value}, map[string]string{key: string(old.Value)}
	} else {
		c.read = map[string]string{key: valueOf(resp.Responses[0].GetResponseRange())}
	}
	l.end(c)
}

func (l *randomCalls) remove(ctx context.Context, kv clientv3.KV, key string, opts ...clientv3.OpOption) {
	c := call{what: "delete", floor: l.begin()}
	resp, err := kv.Delete(ctx, key, append(opts, clientv3.WithPrevKV())...)
	if err != nil {
		return
	}
	c.revision = resp.Header.Revision
	c.wrote, c.expected = map[string]string{}, map[string]string{}
	for _, old := range resp.PrevKvs {
		c.wrote[string(old.Key)], c.expected[string(old.Key)] = "", string(old.Value)
	}
	l.end(c)
}

// call makes one random call.
func (l *randomCalls) call(ctx context.Context, r *rand.Rand, s *site) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	switch key := l.key(r); r.IntN(100) {
	case 0, 1:
		l.put(ctx, s.kv, key)
	case 2:
		l.replace(ctx, s.kv, key)
	case 3:
		l.remove(ctx, s.kv, key)
	case 4:
		if r.IntN(5) == 0 {
			l.remove(ctx, s.kv, l.prefix, clientv3.WithPrefix())
		}
	case 5, 6, 7, 8, 9:
		s.read(ctx, func(ctx context.Context) { l.getBoth(ctx, s.kv, key, l.key(r)) })
	default:
		s.read(ctx, func(ctx context.Context) { l.get(ctx, s.kv, key) })
	}
}

// read carries out a read and counts what it cost.
func (s *site) read(ctx context.Context, f func(ctx context.Context)) {
	var cost atomic.Int64
	f(context.WithValue(ctx, costKey{}, &cost))
	s.reads.Add(1)
	if cost.Load() == 0 {
		s.free.Add(1)
	}
}

// Two sites read and write the same keys through leasing, a third reads them plainly,
// and now and then one of the sites is cut off for longer than its lease lasts, or
// its connections are reset: no answer is stale.
func TestLeasingIsLinearizable(t *testing.T) {
	plain := connect(t)
	prefix := fmt.Sprint(rand.Int64(), "/") // another one in each run
	l := &randomCalls{prefix: prefix + "key/"}
	sites := []*site{newSite(t, prefix+"leasing/"), newSite(t, prefix+"leasing/")}
	ctx, cancel := context.WithTimeout(t.Context(), mostTime)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() {
		for pause(ctx, loadTime); ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
			if len(l.missing(sites)) == 0 {
				cancel()
			}
		}
	})
	for i := range callersOfSite * len(sites) {
		running.Go(func() {
			for r := rand.New(rand.NewPCG(uint64(i), 1)); ctx.Err() == nil; pause(ctx, time.Millisecond) {
				l.call(ctx, r, sites[i%len(sites)])
			}
		})
	}
	running.Go(func() {
		for r := rand.New(rand.NewPCG(100, 1)); ctx.Err() == nil; pause(ctx, time.Millisecond) {
			l.get(ctx, plain, l.key(r))
		}
	})
	running.Go(func() { cutOff(ctx, sites) })
	running.Wait()

	all := readTruth(t, plain, l.prefix)
	wrong := l.verify(all)
	require.Empty(t, wrong[:min(len(wrong), 5)], "%d answers are wrong", len(wrong))
	for i, s := range sites {
		t.Logf("site %d: %d of %d reads were answered from memory, %d sessions", i, s.free.Load(), s.reads.Load(), s.grants.Load())
	}
	for _, what := range kindsOfCalls {
		t.Logf("%s: %d", what, l.count(what))
	}
	require.Empty(t, l.missing(sites))
}

// kindsOfCalls are what the calls of a run are.
var kindsOfCalls = []string{"get", "get both", "put", "replace", "delete"}

// missing returns what has not happened yet, of all that the test is about.
func (l *randomCalls) missing(sites []*site) (missing []string) {
	for i, s := range sites {
		if s.grants.Load() < 2 {
			missing = append(missing, fmt.Sprintf("a loss of the session of site %d", i))
		}
		if s.free.Load() == 0 {
			missing = append(missing, fmt.Sprintf("a read from the memory of site %d", i))
		}
	}
	for _, what := range kindsOfCalls {
		if l.count(what) == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}

// cutOff disturbs the sites in turn.
func cutOff(ctx context.Context, sites []*site) {
	for i := 0; ctx.Err() == nil; i++ {
		s := sites[i%len(sites)]
		pause(ctx, 800*time.Millisecond)
		s.link.Blackhole(link.Both)
		pause(ctx, 2500*time.Millisecond) // the lease ends within one and a half seconds
		s.connect()
		for range 3 { // answers are lost, and the session is not
			pause(ctx, 100*time.Millisecond)
			s.link.Cut()
			s.connect()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
