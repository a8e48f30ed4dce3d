package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness/client"
)

// askEvery is the time between two questions to a member about its leader. A moment
// at which a leader was reported is therefore up to 20 ms late. It is asked all the
// time, so that it costs the healthy row what it costs the others.
const askEvery = 20 * time.Millisecond

// observe watches the members, and makes new callers begin when a new leader is reported,
// until the function that it returns is called. The end of ctx ends it too.
func (r *run) observe(ctx context.Context, services client.Services, revision int64) (end func()) {
	callers := r.openNewCallers(ctx, services, revision)
	if services.Watcher != nil {
		callers.group.Go(func() { callers.writeOutside(r.scene.Cluster.Members()) })
	}
	ctx, cancel := context.WithCancel(ctx)
	var observers sync.WaitGroup
	var known leadership
	for _, m := range r.scene.Cluster.Members() {
		observers.Go(func() { r.askForLeader(ctx, m, &known, callers) })
	}
	return func() {
		cancel()
		observers.Wait()
		callers.finish()
	}
}

// askForLeader asks a member all the time who leads, past the links. A member that
// does not answer is asked again.
func (r *run) askForLeader(ctx context.Context, m *lab.Member, known *leadership, callers *newCallers) {
	for ctx.Err() == nil {
		status, err := m.Status(ctx)
		if err == nil && known.report(m.Index(), status.GetLeader(), status.GetRaftTerm()) {
			callers.begin(r.newLeader(m, status.GetLeader()))
		}
		_ = pause.For(ctx, askEvery)
	}
}

// newLeader notes that a member reports a leader that none has reported before, and
// returns when.
func (r *run) newLeader(reporter *lab.Member, id uint64) (at time.Duration) {
	name := fmt.Sprintf("member %x", id)
	for _, m := range r.scene.Cluster.Members() {
		if m.ID() == id {
			name = m.Name()
		}
	}
	now := r.now()
	r.meter.Lead(now, name, reporter.Name())
	r.meter.Note(now, fmt.Sprintf("%s reports that %s leads", reporter.Name(), name))
	return now
}
