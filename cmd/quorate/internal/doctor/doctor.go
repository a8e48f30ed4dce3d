// Package doctor examines the endpoints of an etcd cluster one layer after the other, and says
// what is wrong, with the cause and what to run.
//
// It asks each endpoint a dozen questions at most and changes nothing.
package doctor

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/endpoint"
)

// Config says what is examined.
type Config struct {
	// Client is how a client would reach the cluster.
	Client clientv3.Config
	// Timeout bounds each step on an endpoint.
	Timeout time.Duration
	// Settle is the pause before what may pass, such as an election, is looked at again.
	// Default [DefaultSettle].
	Settle time.Duration
}

// DefaultSettle is longer than an election takes with etcd's defaults.
const DefaultSettle = 2 * time.Second

// Examine examines the endpoints. It fails if one is malformed, or when ctx ends.
func Examine(ctx context.Context, cfg Config) (Report, error) {
	if cfg.Settle == 0 {
		cfg.Settle = DefaultSettle
	}
	visits := make([]*visit, len(cfg.Client.Endpoints))
	for i, raw := range cfg.Client.Endpoints {
		ep, err := endpoint.Parse(raw)
		if err != nil {
			return Report{}, err
		}
		visits[i] = newVisit(cfg, ep)
		defer visits[i].close()
	}
	each(visits, func(v *visit) { v.examine(ctx) })
	if unsettled(visits) {
		select {
		case <-time.After(cfg.Settle):
		case <-ctx.Done():
		}
		each(visits, func(v *visit) { v.again(ctx) })
	}
	advertised := examineAdvertised(ctx, cfg, visits)
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	return newReport(visits, diagnose(cfg, visits, advertised)), nil
}

func each(visits []*visit, examine func(*visit)) {
	var wg sync.WaitGroup
	for _, v := range visits {
		wg.Go(func() { examine(v) })
	}
	wg.Wait()
}
