package cases

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/bench/internal/cputime"
	"github.com/quorate/quorate/lab/bench/internal/stats"
	"github.com/quorate/quorate/lab/internal/fatal"
)

// startCalls is how many calls each client of the case makes.
const startCalls = 60

func start() Case {
	return Case{
		Name: "start",
		About: "Clients that start at once, half of them with the endpoint of one member and half with all three: each makes 60 calls, " +
			"one after the other, puts and gets in turn.",
		Size: 20, ShortSize: 4,
		Members: 3,
		Metrics: []Metric{
			{Name: "time", About: "60 calls of each of {n} clients that start at once", Unit: Seconds},
			{Name: "first", About: "the first call of a client, the median", Unit: Seconds},
			{Name: "slowest", About: "the slowest call", Unit: Seconds},
			{Name: "cpu", About: "CPU time of the clients", Unit: Seconds},
		},
		Run: startAll,
	}
}

func startAll(ctx context.Context, site Site) Sample {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	firsts, slowest := make([]float64, site.Size), make([]float64, site.Size)
	var clients sync.WaitGroup
	cpu, begun := cputime.Used(), time.Now()
	for i := range site.Size {
		clients.Go(func() {
			own := site
			if i%2 == 0 {
				own.Endpoints = site.Endpoints[i/2%len(site.Endpoints):][:1]
			}
			took, err := startOne(ctx, own, key(i))
			if err != nil {
				fail(err)
				return
			}
			firsts[i], slowest[i] = took[0], slices.Max(took)
		})
	}
	clients.Wait()
	fatal.If(context.Cause(ctx))
	return Sample{
		"time": time.Since(begun).Seconds(), "cpu": (cputime.Used() - cpu).Seconds(),
		"first": stats.Of(firsts).Median, "slowest": slices.Max(slowest),
	}
}

// startOne makes a client and its calls, and returns how long each took, in seconds. The first
// includes New.
func startOne(ctx context.Context, site Site, key string) (took []float64, err error) {
	begun := time.Now()
	c, err := open(site)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	for n := range startCalls {
		if n%2 == 0 {
			_, err = c.Put(ctx, key, "v")
		} else {
			_, err = c.Get(ctx, key)
		}
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(begun).Seconds())
		begun = time.Now()
	}
	return took, nil
}
