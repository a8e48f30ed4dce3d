package main

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var twoPackages = selection{suite: etcdSuite, packages: []suitePackage{{name: ".", tests: 3, skips: 1}, {name: "watch", tests: 2}}}

func TestTableGood(t *testing.T) {
	var out bytes.Buffer
	table := newTable(&out, twoPackages)
	table.head("Quorate")
	table.row(result{importPath: etcdSuite.root, passed: 2, skipped: 1, seconds: 48.12})
	table.row(result{importPath: etcdSuite.root + "/watch", passed: 2, seconds: 1.5})
	table.foot(62400 * time.Millisecond)
	require.True(t, table.ok)
	require.NoError(t, table.err)
	require.Equal(t, `etcd's client suite v3.7.3 over Quorate

package                passed failed skipped  seconds
.                           2      0       1     48.1
watch                       2      0       0      1.5
all                         4      0       1     49.6

1m2s with compiling
`, out.String())
}

func TestTableBad(t *testing.T) {
	var out bytes.Buffer
	table := newTable(&out, twoPackages)
	table.row(result{importPath: etcdSuite.root, passed: 1, failed: 1, seconds: 2, failures: []failure{
		{test: "TestA", output: []string{"kv_test.go:1: wrong\n"}},
	}})
	table.foot(time.Minute)
	require.False(t, table.ok)
	require.Equal(t, `.                           1      1       0      2.0  FAIL
watch                       0      0       0      0.0  FAIL
all                         1      1       0      2.0

1m0s with compiling

FAIL go.etcd.io/etcd/tests/v3/integration/clientv3 TestA
kv_test.go:1: wrong

FAIL go.etcd.io/etcd/tests/v3/integration/clientv3/watch: it was not run
`, out.String())
}

// TestTableEmpty has runs that no test failed in and that must not pass.
func TestTableEmpty(t *testing.T) {
	tests := []struct {
		name      string
		selection selection
		results   []result
		want      string
	}{
		{"nothing ran", twoPackages, nil, "clientv3: it was not run\n"},
		{
			"too few", twoPackages,
			[]result{{importPath: etcdSuite.root, passed: 2}, {importPath: etcdSuite.root + "/watch", passed: 2}},
			"clientv3: 2 tests ran, want 3\n",
		},
		{
			"none of that name",
			selection{suite: etcdSuite, packages: twoPackages.packages, run: "Nosuch"},
			[]result{{importPath: etcdSuite.root}, {importPath: etcdSuite.root + "/watch"}},
			"no test passed",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			table := newTable(&out, tt.selection)
			for _, r := range tt.results {
				table.row(r)
			}
			table.foot(time.Second)
			require.False(t, table.ok)
			require.Contains(t, out.String(), tt.want)
		})
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestTableBrokenPipe(t *testing.T) {
	table := newTable(brokenPipe{}, twoPackages)
	table.head("Quorate")
	table.foot(time.Second)
	require.EqualError(t, table.err, "broken pipe")
}

func TestExcerpt(t *testing.T) {
	numbered := func(prefix string, n int) []string {
		lines := make([]string, n)
		for i := range lines {
			lines[i] = prefix + strconv.Itoa(i+1) + "\n"
		}
		return lines
	}
	logs := []string{
		"    logger.go:146: 2026-11-21T02:21:59.285Z\tINFO\tm0\tstarting\n",
		"        logger.go:146: 2026-11-21T02:21:59.285Z\tDEBUG\tm0\tdialing\n",
		`{"level":"info","msg":"served"}` + "\n",
	}
	require.Empty(t, excerpt(nil))
	require.Equal(t, "a\n    logger.go:146: 2026-11-21T02:21:59.285Z\tWARN\tm0\tslow\n"+
		"(without 3 lines of logs below the level of warnings; --log keeps them)\n",
		excerpt(append(logs, "a\n", "    logger.go:146: 2026-11-21T02:21:59.285Z\tWARN\tm0\tslow\n")))

	long := excerpt(numbered("line ", 1000))
	require.True(t, strings.HasPrefix(long, "... 800 lines\nline 801\n"))
	require.True(t, strings.HasSuffix(long, "line 1000\n"))

	dump := excerpt(append(numbered("line ", 300), append([]string{"panic: test timed out after 10m0s\n"}, numbered("goroutine ", 5000)...)...))
	require.True(t, strings.HasPrefix(dump, "... 100 lines\nline 101\n"))
	require.Contains(t, dump, "line 300\npanic: test timed out after 10m0s\ngoroutine 1\n")
	require.True(t, strings.HasSuffix(dump, "goroutine 199\n... 4801 lines\n"))
}
