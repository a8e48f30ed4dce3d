package faults

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/report"
)

const (
	// askEvery is the time between two status requests to a member. A moment
	// at which a leader was reported is therefore up to 20 ms late. It is asked all the
	// time, so that it costs the healthy row what it costs the others.
	askEvery = 20 * time.Millisecond
	// newCallerPause is how long a new caller waits before it tries again, and the watch of
	// what new callers put before it is opened again.
	newCallerPause = 5 * time.Millisecond
	// outsideKey follows the prefix in the key that is written past the links.
	outsideKey = "outside"
	// outsideEvery is the time between two such writes, and outsideTimeout the deadline of one.
	outsideEvery   = 100 * time.Millisecond
	outsideTimeout = time.Second
)

// observe watches the members, and makes new callers begin when a new leader is reported,
// until the function that it returns is called. The end of ctx ends it too.
func (r *run) observe(ctx context.Context, revision int64) (end func() error) {
	asking, stop := context.WithCancel(ctx)
	callers := r.openNewCallers(ctx, revision)
	if r.conn.Watcher != nil {
		callers.group.Go(func() { callers.writeOutside(r.scene.Cluster.Members()) })
	}
	var observers sync.WaitGroup
	var known leadership
	for _, m := range r.scene.Cluster.Members() {
		observers.Go(func() { r.askForLeader(asking, m, &known, callers) })
	}
	return func() error {
		stop()
		observers.Wait()
		callers.finish()
		return nil
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

// newLeader records that a member reports a leader that none has reported before, and
// returns when.
func (r *run) newLeader(reporter *lab.Member, id uint64) report.Duration {
	name := fmt.Sprintf("member %x", id)
	for _, m := range r.scene.Cluster.Members() {
		if m.ID() == id {
			name = m.Name()
		}
	}
	r.note(fmt.Sprintf("%s reports that %s leads", reporter.Name(), name))
	return r.addLeader(name, reporter.Name())
}

func (r *run) addLeader(name, reporter string) (at report.Duration) {
	r.mark(func(row *report.Row, now report.Duration) {
		at = now
		row.Leaders = append(row.Leaders, report.Leader{At: now, Leader: name, Reporter: reporter})
	})
	return at
}

// newCallers are callers that begin when a new leader is reported. The callers of the load
// may be waiting then for the end of calls that went to the old one, which says nothing
// about the calls that a program makes from now on. What new callers put is apart from
// what the load writes, and is not checked. One key is written past the links all the
// time, so that their watch has events to deliver even if no client can write.
type newCallers struct {
	run    *run
	prefix string // of their keys, ending in a slash

	ctx   context.Context // they outlive the call that announces them
	end   context.CancelFunc
	group sync.WaitGroup

	mu      sync.Mutex
	awaited map[string]func() // called with the event of a key
}

// openNewCallers returns new callers that begin with begin, and opens a watch of what
// they put, from a revision on. finish ends it all.
func (r *run) openNewCallers(ctx context.Context, revision int64) *newCallers {
	n := &newCallers{run: r, prefix: fmt.Sprintf("/quorate-lab-new/%016x/", r.cfg.Seed), awaited: map[string]func(){}}
	n.ctx, n.end = context.WithCancel(ctx)
	if r.conn.Watcher != nil {
		watch := &reader{of: r, pause: newCallerPause, stands: func() {}, took: n.delivered}
		watch.next = history.WatchRequest{
			Key: n.prefix, RangeEnd: n.prefix[:len(n.prefix)-1] + "0", StartRevision: revision, RequireLeader: r.conn.RequireLeader,
		}
		n.group.Go(func() { watch.run(n.ctx) })
	}
	return n
}

// begin makes callers get and put, each until it has succeeded.
func (n *newCallers) begin(since report.Duration) {
	for i := range n.run.cfg.Callers {
		key := fmt.Sprintf("%s%d/%d", n.prefix, time.Duration(since), i)
		n.mu.Lock()
		n.awaited[key] = func() { n.resumed(since, report.NewEvents) }
		n.mu.Unlock()
		n.group.Go(func() {
			n.try(since, report.NewGets, func(ctx context.Context) error {
				_, err := n.run.conn.Store.Get(ctx, key)
				return err
			})
		})
		n.group.Go(func() {
			n.try(since, report.NewPuts, func(ctx context.Context) error {
				_, err := n.run.conn.Store.Put(ctx, key, key)
				return err
			})
		})
	}
}

// try makes a call until it succeeds, and records when it has.
func (n *newCallers) try(since report.Duration, what int, call func(context.Context) error) {
	for n.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(n.ctx, n.run.cfg.CallTimeout)
		err := call(ctx)
		cancel()
		if err == nil {
			n.resumed(since, what)
			return
		}
		_ = pause.For(n.ctx, newCallerPause)
	}
}

// resumed records with the leader that was reported at a moment that one of its new callers has just succeeded.
func (n *newCallers) resumed(since report.Duration, what int) {
	after := n.run.env.Now() - time.Duration(since)
	n.run.mu.Lock()
	defer n.run.mu.Unlock()
	for _, row := range n.run.rec.Rows {
		for i := range row.Leaders {
			if row.Leaders[i].At == since {
				row.Leaders[i].Resumed[what].Add(after)
			}
		}
	}
}

// delivered records that what a new caller put, or what is written past the links, was delivered.
func (n *newCallers) delivered(e history.Event) {
	if seq, err := strconv.Atoi(e.Value); err == nil && e.Key == n.prefix+outsideKey {
		n.run.changeOutside(seq, func(w *report.OutsideWrite, now time.Duration) { w.Delivered = now })
	}
	n.mu.Lock()
	resumed := n.awaited[e.Key]
	delete(n.awaited, e.Key)
	n.mu.Unlock()
	if resumed != nil {
		resumed()
	}
}

// writeOutside writes by the members' own connections, and leaves a member that does not answer.
func (n *newCallers) writeOutside(members []*lab.Member) {
	for seq, at := 0, 0; pause.For(n.ctx, outsideEvery) == nil; seq++ {
		n.run.mu.Lock()
		n.run.rec.Outside = append(n.run.rec.Outside, report.OutsideWrite{})
		n.run.mu.Unlock()
		ctx, cancel := context.WithTimeout(n.ctx, outsideTimeout)
		_, err := pb.NewKVClient(members[at].Conn()).Put(ctx, &pb.PutRequest{
			Key: []byte(n.prefix + outsideKey), Value: strconv.AppendInt(nil, int64(seq), 10),
		})
		cancel()
		if err != nil {
			at = (at + 1) % len(members)
			continue
		}
		n.run.changeOutside(seq, func(w *report.OutsideWrite, now time.Duration) { w.Acknowledged = now })
	}
}

// changeOutside changes the record of a write past the links.
func (r *run) changeOutside(seq int, change func(w *report.OutsideWrite, now time.Duration)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq < len(r.rec.Outside) { // what else the watch delivers is not from here
		change(&r.rec.Outside[seq], r.env.Now())
	}
}

// finish ends the new callers that have not succeeded, and the watch.
func (n *newCallers) finish() {
	n.end()
	n.group.Wait()
}
