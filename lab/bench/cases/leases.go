package cases

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/bench/internal/cputime"
	"github.com/quorate/quorate/lab/internal/fatal"
)

const (
	// leaseTTL, in seconds, means that each lease is renewed every 20 s.
	leaseTTL = 60
	// shortLeaseTTL is the leaseTTL of a short run.
	shortLeaseTTL = 6
	// granters is how many callers grant leases at the same time. The grants then
	// spread over the time that the server takes for them, as in a program that
	// grants leases when it needs them.
	granters = 32
)

// keepLeases grants leases by several callers and keeps them alive. For one whole TTL, which begins a sixth of the TTL after the
// last grant, midway between renewals, it measures the CPU time of the client's process, and how late each keepalive is sent. A
// keepalive is due a third of the TTL after the previous one was sent. The official client counts from the answer to the previous
// one, so its lateness includes the time of that answer.
func keepLeases(ctx context.Context, site Site) Sample {
	ttl := int64(leaseTTL)
	if site.Short {
		ttl = shortLeaseTTL
	}
	whole := time.Duration(ttl) * time.Second
	late := newLateness(whole)
	c := fatal.OK(open(site, grpc.WithChainStreamInterceptor(late.intercept)))
	defer func() { _ = c.Close() }()
	kept := fatal.OK(grantAll(ctx, c, site.Size, ttl))
	fatal.If(pause.For(ctx, whole/6))

	late.start()
	start, cpu := time.Now(), cputime.Used()
	fatal.If(pause.For(ctx, whole))
	took, cpu := time.Since(start), cputime.Used()-cpu
	median, worst := late.end()

	fatal.If(allRenewed(kept))
	return Sample{
		"cpu-%":     100 * cpu.Seconds() / took.Seconds(),
		"late-s":    median.Seconds(),
		"lateMax-s": worst.Seconds(),
	}
}

// renewals are the answers to the keepalives of a lease.
type renewals <-chan *clientv3.LeaseKeepAliveResponse

// drain reads the answers that have arrived, without waiting. It returns their number,
// and whether more may arrive.
func (r renewals) drain() (n int, open bool) {
	for {
		select {
		case _, open := <-r:
			if !open {
				return n, false
			}
			n++
		default:
			return n, true
		}
	}
}

// grantAll grants n leases and keeps each alive from the moment it is granted.
func grantAll(ctx context.Context, c *clientv3.Client, n int, ttl int64) ([]renewals, error) {
	kept := make([]renewals, n)
	work, granting := errgroup.WithContext(ctx)
	work.SetLimit(granters)
	for i := range kept {
		work.Go(func() error {
			lease, err := c.Grant(granting, ttl)
			if err == nil {
				kept[i], err = c.KeepAlive(ctx, lease.ID)
			}
			return err
		})
	}
	return kept, work.Wait()
}

// minRenewals is how often a lease must have been renewed in seven sixths of its TTL.
const minRenewals = 3

// allRenewed makes sure that no lease was lost.
func allRenewed(kept []renewals) error {
	for i, k := range kept {
		switch n, open := k.drain(); {
		case !open:
			return fmt.Errorf("lease %d of %d after %d renewals: %w", i, len(kept), n, errClosed)
		case n < minRenewals:
			return fmt.Errorf("lease %d of %d was renewed %d times, want %d at least", i, len(kept), n, minRenewals)
		}
	}
	return nil
}

// lateness measures how late the keepalives of leases are sent, as a stream interceptor of either client. A keepalive is due a
// third of the TTL after the previous one was sent.
type lateness struct {
	due time.Duration

	mu   sync.Mutex
	sent map[int64]time.Time // the latest keepalive of each lease
	late []time.Duration     // since the start
}

func newLateness(ttl time.Duration) *lateness {
	return &lateness{due: ttl / 3, sent: make(map[int64]time.Time)}
}

// start discards the measurements so far.
func (l *lateness) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = nil
}

// end returns the median and the longest lateness since start. An overdue lease counts with its lateness so far.
func (l *lateness) end() (median, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.late)
	for _, sent := range l.sent {
		if overdue := time.Since(sent) - l.due; overdue > 0 {
			all = append(all, overdue)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2], all[len(all)-1]
}

// note notes that a keepalive is sent.
func (l *lateness) note(lease int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if before, known := l.sent[lease]; known {
		l.late = append(l.late, max(now.Sub(before)-l.due, 0))
	}
	l.sent[lease] = now
}

func (l *lateness) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, opts...)
	return &renewalStream{stream, l}, err
}

type renewalStream struct {
	grpc.ClientStream
	seen *lateness
}

func (s *renewalStream) SendMsg(m any) error {
	if req, ok := m.(*pb.LeaseKeepAliveRequest); ok {
		s.seen.note(req.ID)
	}
	return s.ClientStream.SendMsg(m)
}
