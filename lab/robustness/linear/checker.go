package linear

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

const (
	// checkers is how many groups are checked at a time.
	checkers = 2
	// rereadPause is the time between two attempts to read the keys of a group.
	rereadPause = 100 * time.Millisecond
)

// checker checks groups that callers have left.
type checker struct {
	cfg    Config
	client Client
	pool   *pool
	log    *robustness.Log

	mu      sync.Mutex
	verdict robustness.Verdict
	err     error
}

func newChecker(cfg Config, client Client, pool *pool, log *robustness.Log) *checker {
	return &checker{cfg: cfg, client: client, pool: pool, log: log}
}

// run checks groups until there are no more. When ctx ends it only takes them.
func (k *checker) run(ctx context.Context, groups <-chan *group) {
	for g := range groups {
		err := k.reread(ctx, g)
		if err == nil {
			err = k.check(g)
		}
		if err != nil {
			k.mu.Lock()
			k.err = errors.Join(k.err, err)
			k.mu.Unlock()
		}
	}
}

// reread reads the keys of a group once more, so that the last writes are seen. The
// read is a part of the history.
func (k *checker) reread(ctx context.Context, g *group) error {
	op := model.Operation{Client: k.cfg.Callers, Outcome: model.Answered, Request: snapshot}
	for {
		op.Call = k.log.Now()
		reading, cancel := context.WithTimeout(ctx, callTimeout)
		response, err := k.client.Do(reading, g.keys, op.Request)
		cancel()
		op.Return = k.log.Now()
		if err == nil {
			op.Response = response
			g.operations = append(g.operations, op)
			k.pool.claim(op)
			return nil
		}
		if pause.For(ctx, rereadPause) != nil {
			return fmt.Errorf("read the keys of group %d: %w", g.number, err)
		}
	}
}

// check checks the history of a group.
func (k *checker) check(g *group) error {
	began := k.log.Now()
	finding := model.Check(model.History{Operations: g.operations, Claimed: k.pool.claims.has}, k.cfg.checkTimeout)
	k.mu.Lock()
	defer k.mu.Unlock()
	counts := k.pool.counts
	counts.Add("groups", "checked", 1)
	counts.Max("groups", "operations at most", len(g.operations))
	counts.Max("groups", "ms to check at most", int((k.log.Now() - began).Milliseconds()))
	counts.Add("writes", unseen, finding.Unseen)
	switch finding.Verdict {
	case model.Linearizable:
		return nil
	case model.Violated:
		return k.violated(g, finding)
	default:
		k.verdict.Add(Decided, "group %d: %s", g.number, finding.Message)
		return nil
	}
}

// violated notes a violation, and leaves a page that shows it.
func (k *checker) violated(g *group, finding model.Finding) error {
	k.pool.counts.Add("groups", "not linearizable", 1)
	violation := k.verdict.Add(Linearizable, "group %d: %s", g.number, finding.Message)
	if k.verdict.Counts[Linearizable] > tally.MaxKept {
		return nil
	}
	violation.Page = filepath.Join(k.cfg.PageDir, fmt.Sprintf("linear-seed%d-group%d.html", k.cfg.Seed, g.number))
	if err := save(violation.Page, finding); err != nil {
		return fmt.Errorf("show a violation: %w", err)
	}
	return nil
}

// save writes the page of a violation, and makes the directory for it.
func save(name string, finding model.Finding) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	page, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(finding.Visualize(page), page.Close())
}

// conclude evaluates the revisions of the store when everything is checked: those that no
// write is known to have are at most as many as there are writes that may have one.
// Idempotent writes of unknown outcome must have had their contexts end. It returns what
// went wrong with the checks.
func (k *checker) conclude() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	highest, missing := k.pool.claims.unclaimed()
	if unseen := k.pool.counts.Of("writes", unseen); k.err == nil && !k.cfg.Idempotent && missing > int64(unseen) {
		k.verdict.Add(Accounted, "%d of %d revisions belong to no write that was answered or seen, but only %d writes ended in an "+
			"unknown outcome unseen: some writes were executed more than once", missing, highest, unseen)
	}
	if early := k.pool.counts.Of("writes", unknownEarly); k.cfg.Idempotent && early > 0 {
		k.verdict.Add(Known, "%d writes ended in an unknown outcome before their contexts ended", early)
	}
	return k.err
}
