package monitoring_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const (
	alertsFile    = "../../docs/monitoring/alerts.yaml"
	dashboardFile = "../../docs/monitoring/dashboard.json"
)

// rule is an alert.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         model.Duration    `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func readRules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &file))
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

// expressions returns all that the dashboard asks for.
func expressions(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	var all []string
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all = append(all, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
		}
	}
	metric := regexp.MustCompile(`^label_values\((.*), \w+\)$`)
	for _, v := range dashboard.Templating.List {
		if m := metric.FindStringSubmatch(v.Query); m != nil {
			all = append(all, m[1])
		}
	}
	require.Greater(t, len(all), 30)
	return all
}

// metricsIn returns the names of the metrics in an expression.
func metricsIn(t *testing.T, expr string) []string {
	t.Helper()
	parsed, err := parser.ParseExpr(expr)
	require.NoError(t, err, expr)
	var names []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
		}
		return nil
	})
	require.NotEmpty(t, names, expr)
	return names
}

// labelsIn returns the labels by which an expression selects and groups.
func labelsIn(t *testing.T, expr string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseExpr(expr)
	require.NoError(t, err)
	all := map[string]bool{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				all[m.Name] = true
			}
		case *parser.AggregateExpr:
			for _, name := range n.Grouping {
				all[name] = true
			}
		}
		return nil
	})
	return all
}

// timeline tells at which of the evaluations an alert fires.
func timeline(t *testing.T, r rule, from *recording, begin, end time.Time) (firing []time.Time) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute})
	defer func() { require.NoError(t, engine.Close()) }()
	query, err := engine.NewRangeQuery(t.Context(), from, nil, r.Expr, begin, end, scrapeInterval)
	require.NoError(t, err)
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	require.NoError(t, err)
	seen := map[int64]bool{}
	for _, series := range matrix {
		var since int64
		for i, p := range series.Floats {
			if i == 0 || p.T-series.Floats[i-1].T > scrapeInterval.Milliseconds() {
				since = p.T
			}
			if p.T-since >= time.Duration(r.For).Milliseconds() && !seen[p.T] {
				seen[p.T] = true
				firing = append(firing, time.UnixMilli(p.T))
			}
		}
	}
	return firing
}

var placeholder = regexp.MustCompile(`\$labels\.(\w+)`)

func TestAlertsAreComplete(t *testing.T) {
	for _, r := range readRules(t) {
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Regexp(t, "^EtcdClient[A-Z]", r.Alert)
		for _, text := range r.Annotations {
			for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
				if strings.Contains(r.Expr, " by (") {
					require.True(t, labelsIn(t, r.Expr)[m[1]], "%s names %s, which its expression does not keep", r.Alert, m[1])
				}
			}
		}
	}
}
