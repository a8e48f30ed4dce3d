package monitoring_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

// recording holds what a Prometheus has scraped.
type recording struct {
	series map[string]*recorded // by labels
}

type recorded struct {
	labels  labels.Labels
	samples []chunks.Sample
	seen    bool // by the latest scrape
}

// scrape takes in all metrics, as of a time.
func (r *recording) scrape(t *testing.T, from prometheus.Gatherer, at time.Time) {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, s := range r.series {
		s.seen = false
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			r.addMetric(family.GetName(), m, at)
		}
	}
	for _, s := range r.series {
		if !s.seen {
			s.samples = append(s.samples, sample{at.UnixMilli(), math.Float64frombits(value.StaleNaN)})
		}
	}
}

func (r *recording) addMetric(name string, m *dto.Metric, at time.Time) {
	h := m.GetHistogram()
	if h == nil {
		r.add(name, m.GetLabel(), at, m.GetCounter().GetValue()+m.GetGauge().GetValue())
		return
	}
	for _, b := range h.GetBucket() {
		r.add(name+"_bucket", m.GetLabel(), at, float64(b.GetCumulativeCount()), "le", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
	}
	r.add(name+"_bucket", m.GetLabel(), at, float64(h.GetSampleCount()), "le", "+Inf")
	r.add(name+"_sum", m.GetLabel(), at, h.GetSampleSum())
	r.add(name+"_count", m.GetLabel(), at, float64(h.GetSampleCount()))
}

func (r *recording) add(name string, pairs []*dto.LabelPair, at time.Time, v float64, more ...string) {
	b := labels.NewBuilder(labels.FromStrings(more...))
	b.Set(model.MetricNameLabel, name)
	for _, p := range pairs {
		b.Set(p.GetName(), p.GetValue())
	}
	lset := b.Labels()
	s := r.series[lset.String()]
	if s == nil {
		if r.series == nil {
			r.series = make(map[string]*recorded)
		}
		s = &recorded{labels: lset}
		r.series[lset.String()] = s
	}
	s.samples, s.seen = append(s.samples, sample{at.UnixMilli(), v}), true
}

// names returns the names of all metrics.
func (r *recording) names() map[string]bool {
	names := make(map[string]bool)
	for _, s := range r.series {
		names[s.labels.Get(model.MetricNameLabel)] = true
	}
	return names
}

// sample implements chunks.Sample.
type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                    { return s.t }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.v }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// Querier implements storage.Queryable.
func (r *recording) Querier(int64, int64) (storage.Querier, error) { return querier{r}, nil }

type querier struct{ from *recording }

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
	for _, s := range q.from.series {
		matches := func(m *labels.Matcher) bool { return m.Matches(s.labels.Get(m.Name)) }
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !matches(m) }) {
			set.all = append(set.all, storage.NewListSeries(s.labels, s.samples))
		}
	}
	slices.SortFunc(set.all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return set
}

func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) Close() error { return nil }

type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at <= len(s.all) }
func (s *seriesSet) At() storage.Series              { return s.all[s.at-1] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }
