// Package report turns samples into medians, ratios and a table.
package report

import (
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/quorate/quorate/lab/bench/cases"
)

// The names of the two clients.
const (
	Official = "official"
	Quorate  = "Quorate"
)

// Report is the result of a run.
type Report struct {
	Environment Environment
	// Short says that the sizes were those of a short run.
	Short   bool
	Results []Result
}

// Environment is where the run was made, and of what.
type Environment struct {
	GOOS            string `json:"goos"`
	GOARCH          string `json:"goarch"`
	CPUs            int    `json:"cpus"`
	Go              string `json:"go"`
	OfficialVersion string `json:"officialVersion"`
}

// Result is what was measured of one case.
type Result struct {
	Case cases.Case
	// Size is that at which the case was run.
	Size int
	// Samples are those of each client, by its name.
	Samples map[string][]cases.Sample
}

// New returns a report of this machine without results.
func New(short bool) Report {
	env := Environment{GOOS: runtime.GOOS, GOARCH: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "go.etcd.io/etcd/client/v3" {
				env.OfficialVersion = m.Version
			}
		}
	}
	return Report{Environment: env, Short: short}
}

// values returns a metric of all samples of a client.
func (r Result) values(client, metric string) []float64 {
	values := make([]float64, 0, len(r.Samples[client]))
	for _, s := range r.Samples[client] {
		values = append(values, s[metric])
	}
	return values
}

// median returns the middle value, or the mean of the two in the middle. It is 0 of
// none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
