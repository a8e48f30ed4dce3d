package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// collect hands the lines of a script to a collector, and returns the results of
// the packages that ended and of those that did not.
func collect(t *testing.T, script string) (ended, cut []result) {
	t.Helper()
	c := newCollector()
	require.NoError(t, eachLine(strings.NewReader(script), func(line []byte) error {
		done, err := c.add(line)
		if done != nil {
			ended = append(ended, *done)
		}
		return err
	}))
	return ended, c.rest()
}

func TestCollect(t *testing.T) {
	tests := []struct {
		name   string
		script string
		want   result
	}{
		{
			"tests, an example, and a skipped one", `
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pause","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestB/sub"}
{"Action":"pass","Package":"p","Test":"TestB/sub","Elapsed":1}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":1}
{"Action":"cont","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":2}
{"Action":"run","Package":"p","Test":"TestC"}
{"Action":"skip","Package":"p","Test":"TestC","Elapsed":0}
{"Action":"run","Package":"p","Test":"ExampleD"}
{"Action":"pass","Package":"p","Test":"ExampleD","Elapsed":0}
{"Action":"output","Package":"p","Output":"ok  \tp\t3.500s\n"}
{"Action":"pass","Package":"p","Elapsed":3.5}`,
			result{importPath: "p", passed: 3, skipped: 1, seconds: 3.5},
		},
		{
			"a subtest fails", `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"a\n"}
{"Action":"run","Package":"p","Test":"TestA/sub"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"sub\n"}
{"Action":"fail","Package":"p","Test":"TestA/sub","Elapsed":1}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"b\n"}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":1}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p","Elapsed":2}`,
			result{importPath: "p", passed: 1, failed: 1, seconds: 2, failures: []failure{{test: "TestA", output: []string{"a\n", "sub\n"}}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ended, cut := collect(t, strings.TrimSpace(tt.script))
			require.Empty(t, cut)
			require.Equal(t, []result{tt.want}, ended)
		})
	}
}

// TestCollectCut is what remains if the go command itself ends early.
func TestCollectCut(t *testing.T) {
	ended, cut := collect(t, `{"Action":"start","Package":"q"}
{"Action":"run","Package":"q","Test":"TestA"}
{"Action":"output","Package":"q","Test":"TestA","Output":"a\n"}
{"Action":"start","Package":"p"}
`)
	require.Empty(t, ended)
	require.Equal(t, []result{
		{importPath: "p", failures: []failure{{reason: "it did not end"}}},
		{importPath: "q", failed: 1, failures: []failure{
			{test: "TestA", reason: "it did not end", output: []string{"a\n"}}, {reason: "it did not end"},
		}},
	}, cut)
}

func TestCollectNonsense(t *testing.T) {
	_, err := newCollector().add([]byte("go: no such tool\n"))
	require.EqualError(t, err, `go test -json printed what is no event: "go: no such tool\n"`)
}

// TestRealOutput runs packages of every kind through the go command.
func TestRealOutput(t *testing.T) {
	packages := map[string]string{
		"good":    "func TestA(t *testing.T) { t.Run(`x`, func(*testing.T) {}) }\nfunc TestB(t *testing.T) { t.Skip() }",
		"bad":     "func TestA(t *testing.T) { t.Run(`x`, func(t *testing.T) { t.Error(`wrong`) }) }\nfunc TestB(*testing.T) {}",
		"panic":   "func TestA(*testing.T) {}\nfunc TestB(*testing.T) { panic(`oops`) }",
		"crash":   "func TestA(t *testing.T) { go func() { panic(`oops`) }(); select {} }",
		"exit":    "func TestA(*testing.T) {}\nfunc TestMain(m *testing.M) { m.Run(); println(`leak`); os.Exit(1) }\nvar _ = os.Exit",
		"hang":    "func TestA(*testing.T) {}\nfunc TestB(*testing.T) { select {} }",
		"nobuild": "func TestA(*testing.T) { undefined() }",
		"empty":   "",
		"none":    "", // not even a file of tests
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n\ngo 1.26.0\n"), 0o600))
	for name, body := range packages {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		source := "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _, _ = os.Exit, testing.Main\n\n" + body
		file := "p_test.go"
		if name == "none" {
			file = "p.go"
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, file), []byte(source), 0o600))
	}
	cmd := build{}.goCommand(t.Context(), "test", "-json", "-vet=off", "-timeout=3s", "./...")
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	script, err := cmd.Output()
	require.ErrorContains(t, err, "exit status 1", stderr.String())

	ended, cut := collect(t, string(script))
	require.Empty(t, cut)
	type numbers struct{ passed, failed, skipped int }
	got := map[string]numbers{}
	said := map[string]string{}
	for _, r := range ended {
		name := strings.TrimPrefix(r.importPath, "m/")
		got[name] = numbers{r.passed, r.failed, r.skipped}
		for _, f := range r.failures {
			said[name] += f.test + " " + f.reason + "\n" + excerpt(f.output)
		}
	}
	assert.Equal(t, map[string]numbers{
		"good": {1, 0, 1}, "bad": {1, 1, 0}, "panic": {1, 1, 0}, "crash": {0, 1, 0}, "exit": {1, 0, 0},
		"hang": {1, 1, 0}, "nobuild": {}, "empty": {}, "none": {},
	}, got)
	const failed, lost = "it failed although none of its tests did", "it did not end"
	for name, want := range map[string][]string{
		"bad": {"TestA ", "p_test.go:10: wrong"}, "panic": {"TestB ", "panic: oops"}, "crash": {"TestA " + lost, "panic: oops"},
		"exit": {failed, "leak"}, "hang": {"TestB ", "panic: test timed out after 3s"}, "nobuild": {failed, "undefined: undefined"},
	} {
		for _, part := range want {
			assert.Contains(t, said[name], part, name)
		}
	}
	for _, name := range []string{"good", "empty", "none"} {
		assert.NotContains(t, said, name)
	}
}
