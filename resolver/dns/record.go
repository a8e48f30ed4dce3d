package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/internal/lastgood"
)

// record is the state of a question: a state machine without I/O.
type record struct {
	guard   lastgood.Guard[backend]
	known             // as published
	listed  bool      // the backends are from DNS, even if there are none
	half    time.Time // since when lookups of one family fail
	failed  int       // failures in a row
	problem string    // "" if there is none
	// confirm is when to confirm an answer that is not trusted yet, zero if there is none.
	confirm  time.Time
	rotating bool // answers name parts of a larger list
}

func newRecord(cfg Config) record {
	return record{guard: lastgood.Guard[backend]{Key: backend.key, Delay: cfg.MassRemovalDelay, Window: cfg.RotationWindow}}
}

// key identifies what an answer lists: the target of an SRV record, or addresses.
func (b backend) key() string {
	if b.host != "" {
		return b.host + ":" + strconv.Itoa(int(b.port))
	}
	return fmt.Sprint(b.addrs)
}

func (r *record) answered(now time.Time, q question, a answer) {
	r.failed, r.confirm = r.failed+1, time.Time{}
	if a.incomplete == "" {
		r.failed = 0
	}
	if r.half = r.since(now, a.missing); !r.half.IsZero() && now.Sub(r.half) < r.guard.Delay {
		r.addProblem(fmt.Sprintf("looking up the %v addresses of %q failed", a.missing, q.name))
		return
	}
	if a.moved && len(r.backends) > 0 {
		// A server that has just started, or a search domain with a wildcard, may answer this.
		text := fmt.Sprintf("%q is found as %q and no longer as %q", q.name, a.name, r.name)
		r.empty(now, text, a.ttl)
		if len(r.backends) > 0 {
			return
		}
	}
	r.take(now, a.backends, a.ttl)
	r.listed, r.name = true, a.name
	if r.problem = a.incomplete; r.confirm.IsZero() || r.problem != "" {
		return
	}
	r.addProblem(fmt.Sprintf("%d of %d backends of %q disappeared at once", len(r.backends)-len(a.backends), len(r.backends), q.name))
}

// since returns since when lookups of a family fail: never, if no address of the family is known.
func (r *record) since(now time.Time, lacks Family) time.Time {
	switch {
	case lacks == FamilyAuto || !r.has(lacks):
		return time.Time{}
	case r.half.IsZero():
		return now
	}
	return r.half
}

func (r *record) empty(now time.Time, text string, ttl time.Duration) {
	r.failed = 0
	r.take(now, nil, ttl)
	r.listed = true
	r.addProblem(text)
}

// take publishes an answer and the backends that the guard keeps.
func (r *record) take(now time.Time, backends []backend, ttl time.Duration) {
	if ttl == unknownTTL {
		ttl = 0
	}
	kept := r.guard.Update(now, backends, ttl)
	r.backends = append(slices.Clone(backends), kept.Endpoints...)
	slices.SortFunc(r.backends, backend.compare)
	r.rotating = r.guard.Rotating(now)
	if r.confirm = (time.Time{}); kept.Mass {
		r.confirm = kept.Due
	}
}

func (r *record) failure(now time.Time, text string) {
	r.failed++
	r.guard.Suspend(now)
	r.confirm = time.Time{}
	r.addProblem(text)
}

func (r *record) addProblem(text string) {
	if n := len(r.backends); n > 0 {
		text = fmt.Sprintf("%s (keeping the last good list, of %d)", text, n)
	}
	r.problem = "dns: " + text
}

func (r *record) has(f Family) bool {
	return slices.ContainsFunc(r.backends, func(b backend) bool {
		return slices.ContainsFunc(b.addrs, func(a netip.Addr) bool { return familyOf(a) == f })
	})
}
