// Package verify checks a live cluster with a bounded load on keys of its own: whether its answers are linearizable, and
// whether watches deliver every event once, in order and unchanged. All keys are attached to one lease, which is revoked
// at the end; if the program dies, they expire.
package verify

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// Bounds and defaults.
const (
	DefaultPrefix   = "quorate-verify/"
	DefaultDuration = 10 * time.Second
	DefaultRate     = 50
	MaxRate         = 1000
	MaxDuration     = 10 * time.Minute
	defaultGrace    = 2 * time.Second
	groups          = 4 // of keys
	clients         = 2 // a group
	watches         = 2
	// leaseMargin is how much longer the keys live than the load, in which all is checked and removed.
	leaseMargin = 2 * time.Minute
)

// Config says what is done.
type Config struct {
	Client *clientv3.Client
	// Prefix of the keys; a random name follows it.
	Prefix string
	// Duration of the load, and its Rate in operations a second.
	Duration time.Duration
	Rate     int
	// Timeout bounds each operation.
	Timeout time.Duration
	// Grace bounds what is done after ctx has ended. What is not removed then expires. Default 2 s.
	Grace time.Duration
}

// Result is what was found.
type Result struct {
	Prefix     string             `json:"prefix"`
	Seconds    float64            `json:"seconds"`
	Operations int                `json:"operations"`
	Answered   int                `json:"answered"`
	Failed     int                `json:"failed"`
	Unknown    int                `json:"unknown"`
	Linear     string             `json:"linearizable"` // porcupine's verdict: linearizable, violated
	Events     int64              `json:"events"`
	Watches    int64              `json:"watches"`
	Violations []string           `json:"violations"` // [] for none
	finding    model.Finding      // of the group that Page shows
	watched    watchcheck.Verdict // of the watches
}

// OK reports whether every guarantee was kept.
func (r Result) OK() bool { return len(r.Violations) == 0 && r.Linear == string(model.Linearizable) }

// Page writes a page for browsers with the history of a group of keys: the one that is not
// linearizable, if there is one.
func (r Result) Page(w io.Writer) error { return r.finding.Visualize(w) }

// Run loads the cluster and checks it. When ctx ends the load ends early, and is checked. The error says
// that nothing can be concluded, or that something could not be removed.
func Run(ctx context.Context, cfg Config) (result Result, err error) {
	r := &run{cfg: cfg, begin: time.Now(), prefix: cfg.Prefix + rand.Text() + "/"}
	if err := r.grant(ctx); err != nil {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		return Result{}, fmt.Errorf("grant a lease: %w", err)
	}
	// What has begun is finished and removed after ctx has ended, too, but not for long.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cmp.Or(cfg.Grace, defaultGrace), cancel) })()
	defer func() { err = errors.Join(err, r.remove(lasting)) }()
	r.openWatches(lasting)
	defer r.endWatches()
	r.load(ctx, lasting)
	return r.conclude(lasting)
}

type run struct {
	cfg    Config
	begin  time.Time
	prefix string
	lease  clientv3.LeaseID
	start  int64 // revision before the first operation

	mu        sync.Mutex
	histories [groups][]model.Operation
	values    int

	watching   sync.WaitGroup
	endWatches context.CancelFunc
	watches    []*watch
}

// now returns the time since the run began.
func (r *run) now() time.Duration { return time.Since(r.begin) }

func (r *run) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.cfg.Timeout)
}

func (r *run) grant(ctx context.Context) error {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	lease, err := r.cfg.Client.Grant(ctx, int64((r.cfg.Duration + leaseMargin).Seconds()))
	if err != nil {
		return err
	}
	r.lease, r.start = lease.ID, lease.GetRevision()
	return nil
}

// remove revokes the lease, and with it all keys; writes that are still on their way are refused then.
func (r *run) remove(ctx context.Context) error {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	if _, err := r.cfg.Client.Revoke(ctx, r.lease); err != nil {
		return fmt.Errorf("the keys below %s are removed when their lease %x expires, within %v; revoking it failed: %w",
			r.prefix, int64(r.lease), r.cfg.Duration+leaseMargin, err)
	}
	return nil
}

func (r *run) conclude(ctx context.Context) (Result, error) {
	result := Result{Prefix: r.prefix, Seconds: time.Since(r.begin).Seconds(), Linear: string(model.Linearizable), Violations: []string{}}
	last, err := r.settle(ctx)
	if err != nil {
		return result, err
	}
	events, err := r.replay(ctx, last)
	if err != nil {
		return result, err
	}
	r.checkAnswers(&result, model.NewRecord(r.prefix, events, last))
	result.watched, err = r.checkWatches(events, last)
	if err != nil {
		return result, err
	}
	result.Watches, result.Events = result.watched.Watches, result.watched.Events
	for _, v := range result.watched.Violations {
		result.Violations = append(result.Violations, fmt.Sprintf("watch, %s: %s", v.Promise, v.Message))
	}
	return result, nil
}

// checkAnswers checks the groups of keys one by one.
func (r *run) checkAnswers(result *Result, record *model.Record) {
	for group, operations := range r.histories {
		for _, op := range operations {
			result.Operations++
			switch op.Outcome {
			case model.Answered:
				result.Answered++
			case model.Failed:
				result.Failed++
			default:
				result.Unknown++
			}
		}
		finding := record.Check(r.keys(group), operations)
		if group == 0 || finding.Verdict != model.Linearizable {
			result.finding = finding
		}
		if finding.Verdict != model.Linearizable {
			result.Linear = string(finding.Verdict)
			result.Violations = append(result.Violations, fmt.Sprintf("keys %s%d/: %s: %s", r.prefix, group, finding.Verdict, finding.Message))
		}
	}
}

// Text returns the result for people.
func (r Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations in %.0f s below %s: %d answered, %d failed, %d of unknown outcome.\n",
		r.Operations, r.Seconds, r.Prefix, r.Answered, r.Failed, r.Unknown)
	fmt.Fprintf(&b, "The answers are %s (porcupine).\n", r.Linear)
	if r.Watches > 0 && len(r.watched.Violations) == 0 {
		fmt.Fprintf(&b, "%d watches delivered %d events: none was lost, repeated, out of order or untrue.\n", r.Watches, r.Events)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "VIOLATION: %s\n", v)
	}
	return b.String()
}
