package jobs_test

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3"
	. "github.com/quorate/quorate/clientv3/jobs"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

// rig is a fake cluster in virtual time, whose leases expire by it.
type rig struct{ *fakeetcd.Cluster }

func withRig(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster, err := fakeetcd.Start(3)
		require.NoError(t, err)
		t.Cleanup(cluster.Close)
		cluster.EnableLeaseExpiry()
		test(t, &rig{cluster})
	})
}

// process is a client of its own, over connections that can be cut.
type process struct {
	*clientv3.Client
	*Queue

	cluster *fakeetcd.Cluster
	mu      sync.Mutex
	down    bool
	conns   []net.Conn
}

func (r *rig) process(t *testing.T, cfg Config) *process {
	t.Helper()
	p := &process{cluster: r.Cluster}
	var err error
	p.Client, err = clientv3.New(clientv3.Config{
		Endpoints: r.Endpoints(), Logger: zap.NewNop(), DisableHealthSharing: true,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(p.dial)},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	cfg.Name = "mail"
	p.Queue, err = New(p.Client, cfg)
	require.NoError(t, err)
	return p
}

func (p *process) dial(ctx context.Context, address string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return nil, syscall.ECONNREFUSED
	}
	conn, err := p.cluster.DialContext(ctx, address)
	if err == nil {
		p.conns = append(p.conns, conn)
	}
	return conn, err
}

// cut breaks the connections of the process, and refuses new ones until heal.
func (p *process) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *process) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// working is a Work in a goroutine.
type working struct {
	cancel context.CancelFunc
	result chan error
}

func (p *process) work(t *testing.T, places int, handle Handler) *working {
	ctx, cancel := context.WithCancel(t.Context())
	w := &working{cancel: cancel, result: make(chan error, 1)}
	go func() { w.result <- p.Work(ctx, places, handle) }()
	t.Cleanup(func() { w.end(t) })
	return w
}

// end ends the Work, once.
func (w *working) end(t *testing.T) {
	w.cancel()
	if err, open := <-w.result; open {
		close(w.result)
		require.Equal(t, codes.Canceled, retry.CodeOf(err), "%v", err)
	}
}

// held is a job that a handler was given, which returns what answer receives.
type held struct {
	*Job
	ctx    context.Context
	began  time.Time
	answer chan error
}

// holding is a handler that reports its jobs.
func holding(t *testing.T) (Handler, <-chan *held) {
	jobs := make(chan *held, 1000)
	return func(ctx context.Context, job *Job) error {
		h := &held{job, ctx, time.Now(), make(chan error, 1)}
		jobs <- h
		select {
		case err := <-h.answer:
			return err
		case <-t.Context().Done(): // the test has failed, or does not care
			return t.Context().Err()
		}
	}, jobs
}

// next returns the next value, and fails after a virtual day: while a lease is renewed, a wait is no deadlock.
func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(24 * time.Hour):
		require.FailNow(t, "nothing happens")
		panic("unreachable")
	}
}

func (p *process) enqueue(t *testing.T, payload string, opts ...EnqueueOption) string {
	t.Helper()
	id, err := p.Enqueue(t.Context(), payload, opts...)
	require.NoError(t, err)
	return id
}

func (p *process) status(t *testing.T, id string) *Status {
	t.Helper()
	s, err := p.Get(t.Context(), id)
	require.NoError(t, err)
	return s
}

// settled waits until all jobs are acknowledged or dead letters.
func (p *process) settled(t *testing.T) Counts {
	t.Helper()
	for range 24 * 3600 {
		counts, err := p.Count(t.Context())
		require.NoError(t, err)
		if counts.Waiting+counts.Running == 0 {
			return counts
		}
		time.Sleep(time.Second)
	}
	require.FailNow(t, "jobs are left")
	panic("unreachable")
}
