package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dustin/go-humanize"
	"github.com/stretchr/testify/assert"
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
	s := newStage(c, testing.Short())
	defer func() { require.NoError(b, s.clear()) }()
	samples := make(map[servers.Client][]cases.Sample)
	for round := 0; b.Loop(); round++ {
		if c.MaxRepeat > 0 && round >= c.MaxRepeat {
			continue
		}
		for _, name := range turns(round) {
			sample, err := s.sample(b.Context(), name)
			require.NoError(b, err, name)
			samples[name] = append(samples[name], sample)
		}
	}
	b.Log(c.About)
	b.ReportMetric(0, "ns/op")
	for _, m := range c.Metrics {
		b.Logf("%s: %s", unit(m), strings.ReplaceAll(m.About, "{n}", humanize.Comma(int64(s.size))))
		theirs, ours := median(samples[servers.Official], m.Name), median(samples[servers.Quorate], m.Name)
		b.ReportMetric(theirs, unit(m)+"-official")
		b.ReportMetric(ours, unit(m)+"-quorate")
		if theirs != 0 {
			b.ReportMetric(ours/theirs, unit(m)+"-ratio")
		}
	}
}

// unit is how a metric is named in the results.
func unit(m cases.Metric) string {
	if m.Unit == cases.Count {
		return m.Name
	}
	return m.Name + "-" + string(m.Unit)
}

func median(samples []cases.Sample, metric string) float64 {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, s[metric])
	}
	return stats.Of(values).Median
}

// turns returns the clients in the order of a round.
func turns(round int) []servers.Client {
	order := slices.Clone(servers.Clients)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// stage is where a case is run.
type stage struct {
	cases.Case
	size  int
	short bool
	rig   *rig // nil when there is none at present
}

func newStage(c cases.Case, short bool) *stage {
	s := &stage{Case: c, size: c.Size, short: short}
	if short {
		s.size = c.ShortSize
	}
	return s
}

// sample runs the case once.
func (s *stage) sample(ctx context.Context, client servers.Client) (cases.Sample, error) {
	if s.rig == nil {
		var err error
		if s.rig, err = newRig(ctx, s.Case, s.size); err != nil {
			return nil, err
		}
	}
	program, err := built()
	if err != nil {
		return nil, err
	}
	sample, err := measure(ctx, program, client, cases.Job{Case: s.Name, Site: s.rig.site(s.size, s.short)}, s.rig)
	if s.Alone {
		err = errors.Join(err, s.clear())
	}
	return sample, err
}

func (s *stage) clear() error {
	if s.rig == nil {
		return nil
	}
	err := s.rig.close()
	s.rig = nil
	return err
}

func TestTurns(t *testing.T) {
	assert.Equal(t, []servers.Client{servers.Official, servers.Quorate}, turns(0))
	assert.Equal(t, []servers.Client{servers.Quorate, servers.Official}, turns(1))
}
