package monitoring_test

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const (
	alertsFile    = "../../docs/monitoring/alerts.yaml"
	operatorFile  = "../../docs/monitoring/prometheusrule.yaml"
	dashboardFile = "../../docs/monitoring/dashboard.json"
	runbooks      = "https://github.com/quorate/quorate/blob/main/docs/runbooks.md#"
	runbooksFile  = "../../docs/runbooks.md"
)

var update = flag.Bool("update", false, "write the manifest of the PrometheusRule")

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

// partsOf returns the names of the metrics in an expression, and the labels by which it selects and groups.
func partsOf(t *testing.T, expr string) (metrics []string, labels map[string]bool) {
	t.Helper()
	parsed, err := parser.ParseExpr(expr)
	require.NoError(t, err, expr)
	labels = map[string]bool{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			metrics = append(metrics, n.Name)
			for _, m := range n.LabelMatchers {
				labels[m.Name] = true
			}
		case *parser.AggregateExpr:
			for _, name := range n.Grouping {
				labels[name] = true
			}
		}
		return nil
	})
	require.NotEmpty(t, metrics, expr)
	return metrics, labels
}

// evaluate evaluates the expression of an alert with each scrape.
func evaluate(t *testing.T, r rule, from *recording, begin, end time.Time) promql.Matrix {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute})
	query, err := engine.NewRangeQuery(t.Context(), from, nil, r.Expr, begin, end, scrapeInterval)
	require.NoError(t, err)
	t.Cleanup(func() { // the result is valid until then
		query.Close()
		assert.NoError(t, engine.Close())
	})
	matrix, err := query.Exec(t.Context()).Matrix()
	require.NoError(t, err)
	return matrix
}

// timeline returns at which of the evaluations an alert fires.
func timeline(t *testing.T, r rule, from *recording, begin, end time.Time) (firing []time.Time) {
	t.Helper()
	seen := map[int64]bool{}
	for _, series := range evaluate(t, r, from, begin, end) {
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
	page, err := os.ReadFile(runbooksFile)
	require.NoError(t, err)
	for _, r := range readRules(t) {
		require.Equal(t, runbooks+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
		require.Contains(t, string(page), "\n## "+r.Alert+"\n", "the link leads to no heading")
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Regexp(t, "^EtcdClient[A-Z]", r.Alert)
		_, kept := partsOf(t, r.Expr)
		for _, text := range r.Annotations {
			for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
				if strings.Contains(r.Expr, " by (") {
					require.True(t, kept[m[1]], "%s names %s, which its expression does not keep", r.Alert, m[1])
				}
			}
		}
	}
}

// TestPrometheusRule checks that the manifest for the Prometheus Operator has the rules, or writes it, and the rules as
// `promtool check rules` does.
func TestPrometheusRule(t *testing.T) {
	text, err := os.ReadFile(alertsFile)
	require.NoError(t, err)
	head, groups, found := strings.Cut(string(text), "\ngroups:\n")
	require.True(t, found)
	head, _, _ = strings.Cut(head, " prometheusrule.yaml has the same")
	want := head + `
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: quorate-client
  labels:
    app.kubernetes.io/name: quorate
spec:
  groups:
` + regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(groups, "  $1")
	if *update {
		require.NoError(t, os.WriteFile(operatorFile, []byte(want), 0o644))
	}
	manifest, err := os.ReadFile(operatorFile)
	require.NoError(t, err)
	require.Equal(t, want, string(manifest), "go test ./lab/monitoring -run TestPrometheusRule -update")

	var parsed struct {
		APIVersion, Kind string
		Metadata         struct {
			Name   string
			Labels map[string]string
		}
		Spec json.RawMessage
	}
	require.NoError(t, yaml.UnmarshalStrict(manifest, &parsed))
	spec, err := yaml.JSONToYAML(parsed.Spec)
	require.NoError(t, err)
	rules, errs := rulefmt.Parse(spec, false, model.UTF8Validation)
	require.Empty(t, errs)
	require.Len(t, rules.Groups, 1)
	require.Len(t, rules.Groups[0].Rules, len(readRules(t)))
}

// TestAMemberThatIsOutIsOneAlert uses 500 clients, each of another job or instance. All of them, or a tenth, find the same member
// out.
func TestAMemberThatIsOutIsOneAlert(t *testing.T) {
	const clients = 500
	rules := readRules(t)
	out := rules[slices.IndexFunc(rules, func(r rule) bool { return r.Alert == "EtcdClientEndpointOut" })]
	for _, finding := range []int{clients, clients / 10} {
		var scraped recording
		begin := time.UnixMilli(0)
		for at := begin; at.Sub(begin) <= 3*time.Minute; at = at.Add(scrapeInterval) {
			for i := range clients {
				state := 0.
				if i < finding {
					state = 1
				}
				for _, endpoint := range []string{"m1", "m2"} {
					series := []string{"job", "job" + strconv.Itoa(i%10), "instance", strconv.Itoa(i), "client", "orders", "endpoint", endpoint}
					dead := state
					if endpoint == "m2" {
						dead = 0
					}
					scraped.add("quorate_client_endpoint_state", nil, at, dead, append(series, "state", "dead")...)
					scraped.add("quorate_client_endpoint_state", nil, at, 1-dead, append(series, "state", "serving")...)
				}
			}
		}
		series := evaluate(t, out, &scraped, begin, begin.Add(3*time.Minute))
		require.Len(t, series, 1)
		require.Equal(t, `{endpoint="m1"}`, series[0].Metric.String())
		require.InDelta(t, float64(finding)/clients, series[0].Floats[0].F, 1e-9)
	}
}
