package leaderelection

import (
	"sync"
	"time"

	"github.com/quorate/quorate/observe"
)

// Metrics has the metrics of a Run that has it in its [Config], for observe/prometheus, observe/otel and other
// metrics libraries. The zero value is ready to use; a Metrics serves one Run at a time. It is safe for concurrent use.
type Metrics struct {
	mu            sync.Mutex
	since         time.Time // zero while no term lasts
	terms, losses int64
}

var _ observe.MetricSource = (*Metrics)(nil)

// Metrics returns whether a term lasts, for how long, and how many there were.
func (m *Metrics) Metrics() []observe.Metric {
	m.mu.Lock()
	defer m.mu.Unlock()
	var leading, age float64
	if !m.since.IsZero() {
		leading, age = 1, time.Since(m.since).Seconds()
	}
	return []observe.Metric{
		observe.Gauge("quorate.leaderelection.leading", "{term}", "1 while a term lasts, 0 otherwise.", leading),
		observe.Gauge("quorate.leaderelection.age", "s", "How long the present term has lasted, 0 without one.", age),
		observe.Counter("quorate.leaderelection.terms", "{term}", "Terms that have begun.", float64(m.terms)),
		observe.Counter("quorate.leaderelection.losses", "{term}", "Terms that were lost before the function returned.", float64(m.losses)),
	}
}

func (m *Metrics) termBegan(since time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since = since
	m.terms++
}

func (m *Metrics) termEnded(lost bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since = time.Time{}
	if lost {
		m.losses++
	}
}
