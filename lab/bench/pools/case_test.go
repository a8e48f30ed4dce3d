package pools

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/lab/internal/stats"
)

// measurement is a benchmark: contenders that do the same thing, and what is measured of it.
type measurement struct {
	name string
	// metrics are the names of what is measured.
	metrics []string
	// contenders take turns. The first is what the others are compared with.
	contenders []contender
	// length is for how long a sample is taken.
	length time.Duration
}

// contender is one way to do what a case is about.
type contender struct {
	name string
	// sample does it for a time, and returns a value for each metric.
	sample func(ctx context.Context, d time.Duration) ([]float64, error)
}

func cases() []measurement {
	return []measurement{
		// The server's stream limit is the bound. The pool is to make 2.2 times as many calls as one connection.
		throughput("limit", server{takes: 20 * time.Millisecond}, grpc.MaxConcurrentStreams(100)),
		// Nothing is the bound but the machine, which shows what the pool costs.
		throughput("nolimit", server{}),
		mixed("upload", upload), mixed("download", download),
		lending("lend", 1, 1),
		lending("contend", 64, 8),
	}
}

// BenchmarkPools runs all cases.
func BenchmarkPools(b *testing.B) {
	for _, c := range cases() {
		b.Run(c.name, c.measure)
	}
}

// measure samples the contenders in turn, so that what else happens on the machine hits
// all of them.
func (c measurement) measure(b *testing.B) {
	samples := make([][][]float64, len(c.contenders))
	for b.Loop() {
		for i, contender := range c.contenders {
			values, err := contender.sample(b.Context(), c.length)
			require.NoError(b, err, contender.name)
			samples[i] = append(samples[i], values)
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, contender := range c.contenders {
		for m, metric := range c.metrics {
			b.ReportMetric(median(samples[i], m), contender.name+"-"+metric)
		}
		if i > 0 {
			b.ReportMetric(median(samples[i], 0)/median(samples[0], 0), contender.name+"-x-first")
		}
	}
}

func median(samples [][]float64, m int) float64 {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, s[m])
	}
	return stats.Of(values).Median
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
