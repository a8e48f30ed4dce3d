package measure

import (
	"maps"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
)

// WatchStats holds the figures of all watches in one row.
type WatchStats struct {
	// Delivered counts the events that readers took; a change that several watches
	// deliver counts for each of them, one that a watch delivers twice once.
	Delivered int64 `json:"delivered"`
	// DelayP50, DelayP99 and DelayMax tell how late the delivered events were. The
	// first two are at most 0.8 % too high, never too low.
	DelayP50 time.Duration `json:"delay_p50_ms"`
	DelayP99 time.Duration `json:"delay_p99_ms"`
	DelayMax time.Duration `json:"delay_max_ms"`
	// LongestSilence is the longest time in which a watch delivered nothing although
	// an event was undelivered.
	LongestSilence time.Duration `json:"longest_silence_ms"`
	// Undelivered counts the events that have not been delivered, once
	// for each watch. When the watches have been ended they are lost.
	Undelivered int64 `json:"lost"`
	// Repeated counts the events that a watch delivered again, or behind later ones.
	Repeated int64
	// Ended counts the watches that ended by themselves, and Codes by which error.
	Ended int64            `json:"ended"`
	Codes map[string]int64 `json:"error_codes"`
}

// watchTally has the figures of the watches in one row.
type watchTally struct {
	stats  WatchStats
	delays histogram
}

func (t *watchTally) silent(d time.Duration) {
	t.stats.LongestSilence = max(t.stats.LongestSilence, d)
}

func (t *watchTally) snapshot() WatchStats {
	s := t.stats
	s.DelayP50, s.DelayP99, s.DelayMax = t.delays.quantile(0.50), t.delays.quantile(0.99), t.delays.max
	s.Codes = maps.Clone(s.Codes)
	return s
}

// Watch tells the meter of the watches that there are, before the first write is
// invoked.
func (m *Meter) Watch(scopes []history.Scope) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches = newWatches(scopes)
}

// Invoke notes that a call is about to be sent. Its caller calls Observe, too,
// when the call has ended.
func (m *Meter) Invoke(call history.Call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.rowAt(call.Start); r != nil {
		for _, key := range written(call) {
			m.watches.invoke(key, r, call.Start)
		}
	}
}

// Deliver records the keys of the events that a watch delivered at one time, named
// by [history.Written].
func (m *Meter) Deliver(watch int, keys []history.Key, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	silence := m.watches.deliver(watch, keys, at)
	if r := m.current(); r != nil {
		r.watches.silent(silence)
		if len(keys) > 0 {
			for _, moment := range r.moments {
				moment.watches.see(watch, at-moment.At)
			}
		}
	}
}

// EndWatch records that a watch ended by itself, with the code of its error.
func (m *Meter) EndWatch(code string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.current(); r != nil {
		r.watches.stats.Ended++
		increment(&r.watches.stats.Codes, code)
		m.sample("watch "+code, err)
	}
}
