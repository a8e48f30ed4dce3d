package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/bench/cases"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 100, 1, 2}, 3},
	} {
		given := append([]float64(nil), tt.values...)
		assert.InDelta(t, tt.want, median(tt.values), 1e-9, "%v", tt.values)
		assert.Equal(t, given, tt.values, "the samples stay in their order")
	}
}

func TestValue(t *testing.T) {
	for _, tt := range []struct {
		value float64
		unit  cases.Unit
		want  string
	}{
		{25.5, cases.Seconds, "25.5 s"},
		{9.996, cases.Seconds, "10.0 s"},
		{1.234, cases.Seconds, "1.23 s"},
		{0.6, cases.Seconds, "600 ms"},
		{0.0123, cases.Seconds, "12.3 ms"},
		{0.000842, cases.Seconds, "0.84 ms"},
		{4.184, cases.Kilobytes, "4.18 KB"},
		{12.3, cases.Percent, "12.3 %"},
		{0.0004, cases.Count, "0"},
		{4.05, cases.Count, "4.05"},
		{1234567, cases.Count, "1,234,567"},
	} {
		assert.Equal(t, tt.want, value(tt.value, tt.unit))
	}
}

func TestTarget(t *testing.T) {
	yes, no := true, false
	tests := []struct {
		name              string
		unit              cases.Unit
		target            *cases.Target
		short             bool
		official, quorate float64
		want              *bool
	}{
		{"none", cases.Seconds, nil, false, 1, 1, nil},
		{"kept", cases.Seconds, &cases.Target{AtMost: 4}, false, 5, 4, &yes},
		{"a little late", cases.Seconds, &cases.Target{AtMost: 0.05}, false, 1, 0.0501, &no},
		{"late by less than a digit", cases.Seconds, &cases.Target{AtMost: 0.05}, false, 1, 0.0549, &no},
		{"a little much", cases.Kilobytes, &cases.Target{AtMost: 1.3}, false, 4, 1.304, &no},
		{"a little over", cases.Percent, &cases.Target{AtMost: 0.8, OfOfficial: true}, false, 10, 8.04, &no},
		{"a count kept as shown", cases.Count, &cases.Target{AtMost: 4}, false, 5, 4.004, &yes},
		{"a count missed", cases.Count, &cases.Target{AtMost: 4}, false, 5, 4.01, &no},
		{"nothing", cases.Count, &cases.Target{}, false, 1, 0.004, &yes},
		{"not nothing", cases.Count, &cases.Target{}, false, 1, 0.01, &no},
		{"part kept", cases.Percent, &cases.Target{AtMost: 0.8, OfOfficial: true}, false, 10, 8, &yes},
		{"part missed", cases.Percent, &cases.Target{AtMost: 0.8, OfOfficial: true}, false, 10, 8.1, &no},
		{"as many", cases.Count, &cases.Target{AtMost: 1, OfOfficial: true}, false, 5.001, 5.004, &yes},
		{"one more in a hundred", cases.Count, &cases.Target{AtMost: 1, OfOfficial: true}, false, 5, 5.01, &no},
		{"of the full size", cases.Count, &cases.Target{AtMost: 4, FullSize: true}, true, 1, 1, nil},
		{"of any size", cases.Count, &cases.Target{AtMost: 4}, true, 1, 5, &no},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := sampleResult(tt.target, tt.official, tt.quorate)
			r.Case.Metrics[0].Unit = tt.unit
			row := r.row(r.Case.Metrics[0], tt.short)
			assert.Equal(t, tt.want, row.Met)
			assert.Equal(t, tt.want == nil, row.Target == nil)
		})
	}
}

func TestRatio(t *testing.T) {
	r := sampleResult(nil, 4, 1)
	ratio := r.row(r.Case.Metrics[0], false).Ratio
	require.NotNil(t, ratio)
	assert.InDelta(t, 0.25, *ratio, 1e-9)
	r = sampleResult(nil, 0, 1)
	assert.Nil(t, r.row(r.Case.Metrics[0], false).Ratio, "nothing is a multiple of nothing")
}

func sampleResult(target *cases.Target, official, quorate float64) Result {
	return Result{
		Case: cases.Case{
			Name: "sort", About: "It is measured.",
			Metrics: []cases.Metric{{Name: "time", About: "sort {n} things", Unit: cases.Seconds, Target: target}},
		},
		Size:    10_000,
		Samples: map[string][]cases.Sample{Official: {{"time": official}}, Quorate: {{"time": quorate}}},
	}
}

func sampleReport() Report {
	return Report{
		Environment: Environment{GOOS: "plan9", GOARCH: "mips", CPUs: 2, Go: "go1", OfficialVersion: "v3"},
		Results: []Result{
			sampleResult(&cases.Target{AtMost: 0.6}, 25.5, 0.5),
			sampleResult(&cases.Target{AtMost: 0.8, OfOfficial: true}, 1, 2),
		},
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, Table(&b, sampleReport()))
	lines := strings.Split(b.String(), "\n")
	assert.Equal(t, []string{"MEASURED", "OFFICIAL", "QUORATE", "RATIO", "TARGET", "MET", "RUNS"}, strings.Fields(lines[0]))
	assert.Equal(t, strings.Fields("sort 10,000 things 25.5 s 500 ms 0.0196 ≤ 600 ms yes 1"), strings.Fields(lines[1]))
	assert.Equal(t, strings.Fields("sort 10,000 things 1.00 s 2.00 s 2 ≤ 0.8 of official NO 1"), strings.Fields(lines[2]))
	assert.Contains(t, b.String(), "sort: It is measured.\n")
	assert.NotContains(t, b.String(), "short run")
	for _, line := range lines {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), pageWidth, line)
	}
}

// TestPageWidth holds the texts of the real cases to the page.
func TestPageWidth(t *testing.T) {
	rep := Report{Short: true}
	for _, c := range cases.All() {
		rep.Results = append(rep.Results, Result{Case: c, Size: c.Size})
	}
	var b bytes.Buffer
	require.NoError(t, Table(&b, rep))
	assert.Contains(t, b.String(), "This is a short run")
	for line := range strings.Lines(b.String()) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line)-1, pageWidth, line)
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, JSON(&b, sampleReport()))
	var got struct {
		Environment Environment
		Rows        []Row
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &got))
	assert.Equal(t, sampleReport().Environment, got.Environment)
	require.Len(t, got.Rows, 2)
	assert.Equal(t, sampleReport().Rows(), got.Rows)
	assert.Equal(t, Of{Median: 25.5, Values: []float64{25.5}}, got.Rows[0].Sides[Official])
}
