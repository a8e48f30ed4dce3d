package calls

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/internal/stats"
)

// result is a line of the file of results.
type result struct {
	Go      string          `json:"go"`
	Group   string          `json:"group"`
	Case    string          `json:"case"`
	Callers int             `json:"callers"`
	Cluster clusterConfig   `json:"cluster"`
	Client  string          `json:"client"`
	Rounds  int             `json:"rounds"`
	Rate    stats.Quartiles `json:"callsPerSecond"`
	CPU     stats.Quartiles `json:"cpuNanosecondsPerCall"`
	Allocs  stats.Quartiles `json:"allocationsPerCall"`
	// Beside compares the client with those before it, in the same rounds.
	Beside map[string]comparison `json:"beside,omitempty"`
}

// comparison has the figures of a client relative to those of another.
type comparison struct {
	Rate   stats.Quartiles `json:"timesCallsPerSecond"`
	CPU    stats.Quartiles `json:"timesCPU"`
	Allocs stats.Quartiles `json:"addedAllocations"`
}

// report reports the metrics of a case, as testing has them, in the table and in the file.
func (g group) report(b *testing.B, m *measurement) {
	b.ReportMetric(0, "ns/op")
	var lines []result
	for i, c := range m.clients {
		r := result{
			Go: runtime.Version(), Group: g.name, Case: m.operation.name, Callers: m.callers, Cluster: g.cluster, Client: c.name, Rounds: m.rounds(),
			Rate: m.rate(c.name), CPU: m.of(c.name, func(s sample) float64 { return s.cpu }),
			Allocs: m.of(c.name, func(s sample) float64 { return s.allocs }), Beside: make(map[string]comparison),
		}
		b.ReportMetric(r.Rate.Median, unit(c.name)+"/s")
		for _, other := range m.clients[:i] {
			r.Beside[other.name] = comparison{m.times(c.name, other.name), m.timesCPU(c.name, other.name), m.addedAllocs(c.name, other.name)}
			b.ReportMetric(r.Beside[other.name].Rate.Median, unit(c.name)+"-x-"+unit(other.name))
		}
		lines = append(lines, r)
	}
	for _, row := range g.table.rowsOf(m) {
		row[0] += g.cluster.suffix()
		g.table.rows = append(g.table.rows, row)
	}
	if *resultsFile == "" {
		return
	}
	file, err := os.OpenFile(*resultsFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(b, err)
	encoder := json.NewEncoder(file)
	for _, r := range lines {
		require.NoError(b, encoder.Encode(r))
	}
	require.NoError(b, file.Close())
}

// unit returns a name as testing allows it in units, and benchstat in names.
var unit = strings.NewReplacer(",", "", " ", "-").Replace

// suffix is what the name of a case ends with in a table.
func (c clusterConfig) suffix() string {
	switch {
	case c.TLS:
		return ", TLS"
	case c.ToClient > 0:
		return fmt.Sprintf(", round trip of %v", 2*c.ToClient)
	case c.Members > 1 && c.BetweenMembers == 0:
		return fmt.Sprintf(", %d members", c.Members)
	}
	return ""
}

// table is a table of docs/performance.md or docs/observing.md.
type table struct {
	head   []string
	rowsOf func(*measurement) [][]string
	rows   [][]string
}

var (
	besideStub    = stubTable("official", "quorate")
	besideMinimal = stubTable("minimal", "minimal+defaults", "official", "quorate")
	besideAlone   = &table{
		head: []string{"", "callers", "times the official client", "times Quorate alone"},
		rowsOf: func(m *measurement) [][]string {
			return [][]string{{m.operation.name, fmt.Sprint(m.callers), digits(m.times("batch", "official")), digits(m.times("batch", "quorate"))}}
		},
	}
	latencies = &table{
		head: []string{"", "official client", "Quorate, `round_robin`", "Quorate, `leader`"},
		rowsOf: func(m *measurement) [][]string {
			row := []string{m.operation.name}
			for _, c := range m.clients {
				row = append(row, fmt.Sprintf("%.1f ms", 1e3*float64(m.callers)/m.rate(c.name).Median))
			}
			return [][]string{row}
		},
	}
	besidePlain = &table{
		head: []string{"", "callers", "plain, puts/s", "idempotent", "idempotent, grouped", "fenced"},
		rowsOf: func(m *measurement) [][]string {
			row := []string{m.operation.name, fmt.Sprint(m.callers), fmt.Sprintf("%.0f", m.rate("plain").Median)}
			for _, c := range m.clients[1:] {
				row = append(row, digits(m.times(c.name, "plain")))
			}
			return [][]string{row}
		},
	}
	besideUnobserved = &table{
		head: []string{"observer", "callers", "throughput", "CPU of the client", "allocations of a get"},
		rowsOf: func(m *measurement) [][]string {
			var rows [][]string
			first := m.clients[0].name
			for _, c := range m.clients[1:] {
				rows = append(rows, []string{
					c.name, fmt.Sprint(m.callers), digits(m.times(c.name, first)) + " ×", digits(m.timesCPU(c.name, first)) + " ×",
					fmt.Sprintf("%+.0f", m.addedAllocs(c.name, first).Median),
				})
			}
			return rows
		},
	}
	tables = []*table{besideStub, besideMinimal, besideAlone, besidePlain, latencies, besideUnobserved}
)

// stubTable returns a table of clients beside the stub, and of the last client beside the one before it.
func stubTable(clients ...string) *table {
	last, previous := clients[len(clients)-1], clients[len(clients)-2]
	t := &table{head: []string{"", "callers", "stub, calls/s"}}
	for _, c := range clients {
		t.head = append(t.head, c+" × stub")
	}
	all := strings.Join(clients, ", ")
	t.head = append(t.head, last+" × "+previous, "CPU added: "+all, "allocations added: "+all)
	t.rowsOf = func(m *measurement) [][]string {
		row := []string{m.operation.name, fmt.Sprint(m.callers), fmt.Sprintf("%.0f", m.rate("stub").Median)}
		var cpu, allocs []string
		for _, c := range clients {
			row = append(row, digits(m.times(c, "stub")))
			cpu = append(cpu, fmt.Sprintf("%.1f", m.addedCPU(c, "stub").Median/1e3))
			allocs = append(allocs, fmt.Sprintf("%.0f", m.addedAllocs(c, "stub").Median))
		}
		return [][]string{append(row, digits(m.times(last, previous)), strings.Join(cpu, ", ")+" µs", strings.Join(allocs, ", "))}
	}
	return t
}

// digits returns the median with two digits after the point.
func digits(s stats.Quartiles) string { return fmt.Sprintf("%.2f", s.Median) }

// print prints the table as Markdown, if there is anything in it.
func (t *table) print(to io.Writer) {
	if t.rows == nil {
		return
	}
	_, _ = fmt.Fprintf(to, "\n| %s |\n|%s\n", strings.Join(t.head, " | "), strings.Repeat("---|", len(t.head)))
	for _, row := range t.rows {
		_, _ = fmt.Fprintf(to, "| %s |\n", strings.Join(row, " | "))
	}
	_, _ = fmt.Fprintln(to)
}
