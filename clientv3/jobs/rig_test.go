package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
	. "github.com/quorate/quorate/clientv3/jobs"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a fake cluster in virtual time, whose leases expire by it.
type rig struct{ *fakeetcd.Cluster }

func withRig(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	clienttest.Bubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster) { test(t, &rig{cluster}) })
}

// process is a client of its own, over connections that can be cut.
type process struct {
	*clienttest.Process
	*Queue
}

func (r *rig) process(t *testing.T, cfg Config) *process {
	t.Helper()
	p := clienttest.NewProcess(t, r.Cluster, zap.NewNop())
	cfg.Name = "mail"
	queue := clienttest.Must(New(p.Client, cfg))
	return &process{p, queue}
}

// working is a Work in a goroutine.
type working struct {
	cancel context.CancelFunc
	result chan error
	jobs   chan *held
}

// work handles jobs; without a handler, it holds them.
func (p *process) work(t *testing.T, places int, handle Handler) *working {
	ctx, cancel := context.WithCancel(t.Context())
	w := &working{cancel: cancel, result: make(chan error, 1), jobs: make(chan *held, 1000)}
	if handle == nil {
		handle = func(ctx context.Context, job *Job) error {
			h := &held{job, ctx, time.Now(), make(chan error, 1)}
			w.jobs <- h
			select {
			case err := <-h.answer:
				return err
			case <-t.Context().Done(): // the test has failed, or does not care
				return t.Context().Err()
			}
		}
	}
	go func() { w.result <- p.Work(ctx, places, handle) }()
	t.Cleanup(func() { w.end(t) })
	return w
}

// handles returns a process and the only job, which it handles.
func (r *rig) handles(t *testing.T) (*process, *held) {
	t.Helper()
	p := r.process(t, Config{})
	p.enqueue(t, "letter")
	return p, p.work(t, 1, nil).next(t)
}

// next returns the next job that is held.
func (w *working) next(t *testing.T) *held {
	t.Helper()
	return clienttest.Next(t, w.jobs)
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

func (p *process) enqueue(t *testing.T, payload string, opts ...EnqueueOption) string {
	t.Helper()
	return clienttest.Must(p.Enqueue(t.Context(), payload, opts...))
}

func (p *process) status(t *testing.T, id string) *Status {
	t.Helper()
	return clienttest.Must(p.Get(t.Context(), id))
}

// settled waits until all jobs are acknowledged or dead letters.
func (p *process) settled(t *testing.T) Counts {
	t.Helper()
	for range 24 * 3600 {
		counts := clienttest.Must(p.Count(t.Context()))
		if counts.Waiting+counts.Running == 0 {
			return counts
		}
		time.Sleep(time.Second)
	}
	require.FailNow(t, "jobs are left")
	panic("unreachable")
}
