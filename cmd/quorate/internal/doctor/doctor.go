// Package doctor examines the endpoints of an etcd cluster one layer after the other, and says
// what is wrong, with the cause and what to run.
//
// It sends each endpoint some ten requests, 18 at most, and changes nothing.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/internal/pause"
)

// Config says what is examined.
type Config struct {
	// Client is how a client would reach the cluster.
	Client clientv3.Config
	// Only, if set, is the one endpoint of Client that is examined.
	Only string
	// Timeout bounds each step on an endpoint.
	Timeout time.Duration
	// Cluster also reports the members that no endpoint names, as if they were endpoints.
	Cluster bool
	// Hash compares the data of the members at one revision: each reads its whole database.
	Hash bool
	// Collect, if set, is called with what each member answered, one file at a time.
	Collect func(File)
	// Settle is the pause before problems that may pass, such as an election, are looked at again.
	// Default 2 s.
	Settle time.Duration
}

// secured reports whether a client sends tokens and passwords over TLS only.
func (c Config) secured() bool {
	return c.Client.TLS != nil || slices.ContainsFunc(c.Client.Endpoints, func(raw string) bool {
		ep, _ := endpoint.Parse(raw) // Examine has the error
		return ep.UseTLS(false)
	})
}

// defaultSettle is longer than an election takes with etcd's defaults.
const defaultSettle = 2 * time.Second

// Examine examines the endpoints, and the members that they name. It fails if an endpoint is malformed, or when ctx ends.
func Examine(ctx context.Context, cfg Config) (Report, error) {
	cfg.Settle = cmp.Or(cfg.Settle, defaultSettle)
	var all []*visit
	defer func() { each(all, (*visit).close) }()
	for _, raw := range cfg.Client.Endpoints {
		if cfg.Only != "" && raw != cfg.Only {
			continue
		}
		ep, err := endpoint.Parse(raw)
		if err != nil {
			return Report{}, err
		}
		all = append(all, newVisit(cfg, ep))
	}
	begin := len(all)
	each(all, func(v *visit) { v.examine(ctx) })
	advertised := advertisedURLs(cfg, all)
	for _, a := range advertised {
		if a.visit != nil {
			all = append(all, a.visit)
		}
	}
	each(all[begin:], func(v *visit) { v.examine(ctx) })
	if unsettled(all) {
		_ = pause.For(ctx, cfg.Settle)
		each(all, func(v *visit) { v.again(ctx) })
	}
	if cfg.Hash {
		revision := commonRevision(all)
		each(all, func(v *visit) { v.askHash(ctx, revision) })
	}
	for _, v := range all {
		if cfg.Collect != nil {
			v.collect(ctx, cfg.Collect)
		}
	}
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	shown := all
	if !cfg.Cluster {
		shown = all[:begin]
	}
	return newReport(shown, diagnose(cfg, all, advertised)), nil
}

// unsettled reports whether a problem was seen that may be due to an election or a moment of load.
func unsettled(visits []*visit) bool {
	var term uint64
	for _, v := range visits {
		term = max(term, v.status.GetRaftTerm())
	}
	return slices.ContainsFunc(visits, func(v *visit) bool {
		s := v.status
		if s == nil {
			return false
		}
		lost := status.Code(v.readErr) == codes.Unavailable || status.Code(v.readErr) == codes.DeadlineExceeded
		return s.Header.GetMemberId() != 0 && (s.Leader == 0 || s.RaftTerm < term || toApply(s) > lagBound) || lost
	})
}

// each does something for all visits at the same time.
func each(visits []*visit, do func(*visit)) {
	var wg sync.WaitGroup
	for _, v := range visits {
		wg.Go(func() { do(v) })
	}
	wg.Wait()
}

// Why returns the cause of the first error or warning that an examination finds, "" if there is none.
func Why(ctx context.Context, cfg Config) string {
	cfg.Settle = time.Millisecond // a problem that passes soon is a cause, too
	report, err := Examine(ctx, cfg)
	if err != nil || report.Healthy {
		return ""
	}
	return report.Findings[0].Cause
}
