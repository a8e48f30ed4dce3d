package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/internal/stats"
	"github.com/quorate/quorate/lab/servers"
)

// built compiles the program that is measured, once; remove removes it.
var (
	built = sync.OnceValues(func() (*servers.Program, error) {
		p, err := servers.BuildProgram(context.Background(), "./bench/program", servers.Clients)
		if err == nil {
			remove = p.Remove
		}
		return p, err
	})
	remove = func() {}
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		remove()
		os.Exit(status)
	}))
}

// BenchmarkClients runs all cases.
func BenchmarkClients(b *testing.B) {
	for _, c := range cases.All() {
		b.Run(c.Name, func(b *testing.B) { compare(b, c) })
	}
}

// compare takes samples of both clients in turn. Who begins changes from one round to the next, so that what else happens on
// the machine hits both.
func compare(b *testing.B, c cases.Case) {
	samples := make(map[servers.Client][]cases.Sample)
	for round := 0; b.Loop(); round++ {
		if c.MaxRepeat > 0 && round >= c.MaxRepeat {
			continue
		}
		order := slices.Clone(servers.Clients)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			sample, err := take(b.Context(), c, name, testing.Short())
			require.NoError(b, err, name)
			samples[name] = append(samples[name], sample)
		}
	}
	b.ReportMetric(0, "ns/op")
	for metric := range samples[servers.Quorate][0] {
		theirs, ours := median(samples[servers.Official], metric), median(samples[servers.Quorate], metric)
		b.ReportMetric(theirs, metric+"-official")
		b.ReportMetric(ours, metric+"-quorate")
		if theirs != 0 {
			b.ReportMetric(ours/theirs, metric+"-ratio")
		}
	}
}

func median(samples []cases.Sample, metric string) float64 {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, s[metric])
	}
	return stats.Of(values).Median
}

// take runs a case once, on a new cluster.
func take(ctx context.Context, c cases.Case, client servers.Client, short bool) (sample cases.Sample, err error) {
	size := c.Size
	if short {
		size = c.ShortSize
	}
	r, err := newRig(ctx, c, size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return measure(ctx, client, cases.Job{Case: c.Name, Site: r.site(size, short)}, r)
}
