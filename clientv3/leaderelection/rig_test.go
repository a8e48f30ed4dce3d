package leaderelection_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
	. "github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
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
	logs *observer.ObservedLogs
}

func (r *rig) process(t *testing.T) *process {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	return &process{clienttest.NewProcess(t, r.Cluster, zap.New(core)), logs}
}

// lead is the function of a Run, as a test sees it.
type lead struct {
	term *Term
	ctx  context.Context
	// began and ended are when the function was called and when its context ended.
	began, ended time.Time
	leave        chan error // the function returns what it receives
	run          *running
}

// running is a Run in a goroutine.
type running struct {
	cancel context.CancelFunc
	// terms has each call of the function.
	terms  chan *lead
	result chan error
}

// run begins a Run whose function returns what lead.leave receives, whether or not its context has ended.
func (p *process) run(t *testing.T, cfg Config) *running {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "office"
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{cancel: cancel, terms: make(chan *lead, 100), result: make(chan error, 1)}
	go func() {
		r.result <- Run(ctx, p.Client, cfg, func(ctx context.Context, term *Term) error {
			l := &lead{term: term, ctx: ctx, began: time.Now(), leave: make(chan error), run: r}
			defer context.AfterFunc(ctx, func() { l.ended = time.Now() })()
			r.terms <- l
			select {
			case err := <-l.leave:
				return err
			case <-t.Context().Done(): // the test has failed
				return nil
			}
		})
	}()
	return r
}

// leads waits for the next term.
func (r *running) leads(t *testing.T) *lead {
	t.Helper()
	return clienttest.Next(t, r.terms)
}

// leads returns a process that leads.
func (r *rig) leads(t *testing.T, cfg Config) (*process, *lead) {
	t.Helper()
	p := r.process(t)
	return p, p.run(t, cfg).leads(t)
}

// ends waits for the end of the Run.
func (r *running) ends(t *testing.T) error {
	t.Helper()
	return clienttest.Next(t, r.result)
}

func (r *running) requireWaiting(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Empty(t, r.terms)
	require.Empty(t, r.result)
}

// finish has the function return nil, and the Run, too.
func (l *lead) finish(t *testing.T) {
	t.Helper()
	l.leave <- nil
	require.NoError(t, l.run.ends(t))
}

// lost waits for the end of the term, and returns its cause.
func (l *lead) lost(t *testing.T) *TermEndedError {
	t.Helper()
	clienttest.Next(t, l.ctx.Done())
	synctest.Wait()
	var ended *TermEndedError
	require.ErrorAs(t, context.Cause(l.ctx), &ended)
	require.Equal(t, error(ended), l.term.Err())
	require.Equal(t, l.term.Key(), ended.Key)
	require.Equal(t, l.term.Revision(), ended.Revision)
	return ended
}

// candidates returns the keys below the prefix in the order of their creation.
func (r *rig) candidates(t *testing.T, p *process, prefix string) []string {
	t.Helper()
	return clienttest.Keys(t, p, prefix+"/")
}

// requireNothingLeft checks that there are neither candidates nor leases.
func (r *rig) requireNothingLeft(t *testing.T, p *process) {
	t.Helper()
	require.Empty(t, r.candidates(t, p, "office"))
	leases := clienttest.Must(p.Leases(t.Context()))
	require.Empty(t, leases.Leases)
}
