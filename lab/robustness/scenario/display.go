package scenario

import (
	"sync"
	"time"

	"github.com/quorate/quorate/lab/robustness/report"
)

// showEvery is the time between two snapshots.
const showEvery = 500 * time.Millisecond

// display shows snapshots from one goroutine, at a steady rate and whenever the
// phase changes.
type display struct {
	show     func(report.Snapshot)
	snapshot func(phase string) report.Snapshot
	changed  chan struct{}
	quit     chan struct{}
	done     chan struct{}

	mu   sync.Mutex
	name string // of the phase
}

// showProgress starts a display; close ends it.
func showProgress(show func(report.Snapshot), snapshot func(phase string) report.Snapshot) *display {
	d := &display{
		show: show, snapshot: snapshot,
		changed: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go d.run()
	return d
}

func (d *display) run() {
	defer close(d.done)
	ticker := time.NewTicker(showEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-d.changed:
		case <-d.quit:
			return
		}
		d.mu.Lock()
		name := d.name
		d.mu.Unlock()
		d.show(d.snapshot(name))
	}
}

// phase says what is being done from now on.
func (d *display) phase(name string) {
	d.mu.Lock()
	d.name = name
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *display) close() {
	close(d.quit)
	<-d.done
}

// snapshot tells how the run stands.
func (r *run) snapshot(phase string) report.Snapshot {
	_, claims := r.claims.found()
	s := report.Snapshot{Phase: phase, Violations: claims.Total()}
	began := r.began.Load()
	if began == nil {
		return s
	}
	s.Elapsed = time.Since(*began)
	s.Rows = r.meter.Rows(s.Elapsed)
	return s
}
