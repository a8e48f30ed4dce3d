package monitoring_test

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
)

// recording holds what a Prometheus has scraped.
type recording struct {
	series map[string]*recorded // by labels
}

type recorded struct {
	promql.Series
	seen bool // by the latest scrape
}

func (r *recorded) sample(at time.Time, v float64) {
	r.Floats = append(r.Floats, promql.FPoint{T: at.UnixMilli(), F: v})
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
			s.sample(at, math.Float64frombits(value.StaleNaN))
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
		s = &recorded{Series: promql.Series{Metric: lset}}
		r.series[lset.String()] = s
	}
	s.sample(at, v)
	s.seen = true
}

// names returns the names of all metrics.
func (r *recording) names() map[string]bool {
	names := make(map[string]bool)
	for _, s := range r.series {
		names[s.Metric.Get(model.MetricNameLabel)] = true
	}
	return names
}

// Querier implements storage.Queryable.
func (r *recording) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{SeriesSet: storage.EmptySeriesSet()}
		for _, s := range r.series {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
				set.all = append(set.all, promql.NewStorageSeries(s.Series))
			}
		}
		slices.SortFunc(set.all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
		return set
	}}, nil
}

// seriesSet has no error and no warnings, as an empty one.
type seriesSet struct {
	storage.SeriesSet
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool         { s.at++; return s.at <= len(s.all) }
func (s *seriesSet) At() storage.Series { return s.all[s.at-1] }
