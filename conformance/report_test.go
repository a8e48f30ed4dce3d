package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reportOn returns what is printed of a script of events, after the head, and whether all was well.
func reportOn(t *testing.T, s selection, script string) (printed string, ok bool) {
	t.Helper()
	var out bytes.Buffer
	r := newReport(&out, s, "Quorate")
	head := out.Len()
	require.NoError(t, eachEvent(strings.NewReader(script), r.add))
	r.finish(62400 * time.Millisecond)
	return out.String()[head:], r.ok
}

// events returns what go test -json prints of a package: an action, a test or - for the package, and the time or the output of each.
func events(pkg, script string) string {
	var out strings.Builder
	for event := range strings.SplitSeq(script, ";") {
		action, rest, _ := strings.Cut(strings.TrimSpace(event), " ")
		test, more, _ := strings.Cut(rest, " ")
		e := map[string]any{"Action": action, "Package": pkg, "Test": strings.Trim(test, "-")}
		if elapsed, err := strconv.ParseFloat(more, 64); err == nil {
			e["Elapsed"] = elapsed
		} else if action == "output" {
			e["Output"] = more + "\n"
		}
		line, _ := json.Marshal(e)
		out.Write(append(line, '\n'))
	}
	return out.String()
}

func TestReport(t *testing.T) {
	two := selection{suite: suite{title: "Suite", root: "r"}, packages: []suitePackage{{name: ".", tests: 3, skips: 1}, {name: "p", tests: 2}}}
	good := events("r", `run TestA; output TestA === RUN   TestA; pause TestA; run TestB; run TestB/sub; pass TestB/sub 1; pass TestB 1;
		cont TestA; pass TestA 2; run TestC; skip TestC; output - ok r 3.500s; pass - 3.5`)
	for name, test := range map[string]struct {
		selection selection
		script    string
		ok        bool
		want      string
	}{
		"good, and an example": {two, good + events("r/p", "run TestA; pass TestA; run ExampleB; pass ExampleB; pass - 1"), true, `.                           2      0       1      3.5
p                           2      0       0      1.0
all                         4      0       1

1m2s with compiling
`},
		"a test finds goroutines, in the short form": {selection{suite: two.suite, packages: two.packages, short: true}, good + events("r/p",
			"run TestA; output TestA Found leaked goroutined BEFORE test appears to have leaked; skip TestA; run TestB; pass TestB 1; pass - 1"), true, `.                           2      0       1      3.5
p                           1      0       1      1.0
all                         3      0       2

1m2s with compiling
`},
		"a subtest fails": {two, good + events("r/p", `run TestA; output TestA a; run TestA/sub; output TestA/sub sub; fail TestA/sub 1;
			fail TestA 1; run TestB; output TestB b; pass TestB 1; output - FAIL; fail - 2`), false, `.                           2      0       1      3.5
p                           1      1       0      2.0  FAIL

FAIL r/p TestA
a
sub

all                         3      1       1

1m2s with compiling
`},
		"too few": {two, good + events("r/p", "run TestA; pass TestA; pass - 1"), false, `.                           2      0       1      3.5
p                           1      0       0      1.0  FAIL

FAIL r/p: 1 tests ran, want 2

all                         3      0       1

1m2s with compiling
`},
		"the go command ends early": {two, good + events("r/p", "run TestA; output TestA a"), false, `.                           2      0       1      3.5
p                           0      1       0      0.0  FAIL

FAIL r/p TestA
a

all                         2      1       1

1m2s with compiling
`},
		"nothing ran": {two, "", false, `.                           0      0       0      0.0  FAIL

FAIL r: it did not end

p                           0      0       0      0.0  FAIL

FAIL r/p: it did not end

all                         0      0       0

1m2s with compiling
`},
		"none of that name": {selection{suite: two.suite, packages: two.packages[1:], run: "Nosuch"}, events("r/p", "pass -"), false, `p                           0      0       0      0.0
no test passed: none was found
all                         0      0       0

1m2s with compiling
`},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := reportOn(t, test.selection, test.script)
			assert.Equal(t, test.ok, ok)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestWhatIsNoEvent(t *testing.T) {
	require.ErrorContains(t, eachEvent(strings.NewReader("go: no such tool\n"), nil), "go test -json printed what is no event")
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
	s := selection{suite: suite{root: "m"}, run: "."}
	for name, body := range packages {
		s.packages = append(s.packages, suitePackage{name: name})
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		source := "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _, _ = os.Exit, testing.Main\n\n" + body
		file := "p_test.go"
		if name == "none" {
			file = "p.go"
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, file), []byte(source), 0o600))
	}
	cmd := new(build).goCommand(t.Context(), "test", "-json", "-vet=off", "-timeout=3s", "./...")
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	script, err := cmd.Output()
	require.ErrorContains(t, err, "exit status 1", stderr.String())

	printed, ok := reportOn(t, s, string(script))
	require.False(t, ok)
	for name, want := range map[string]string{
		"good": "1 0 1", "bad": "1 1 0", "panic": "1 1 0", "crash": "0 1 0", "exit": "1 0 0", "hang": "1 1 0", "nobuild": "0 0 0", "empty": "0 0 0", "none": "0 0 0",
	} {
		assert.Regexp(t, `(?m)^`+name+` +`+strings.ReplaceAll(want, " ", " +")+` `, printed)
	}
	const failed = ": it failed although none of its tests did"
	for name, want := range map[string][]string{
		"bad": {" TestA", "p_test.go:10: wrong"}, "panic": {" TestB", "panic: oops"}, "crash": {" TestA", "panic: oops"},
		"exit": {failed, "leak"}, "hang": {" TestB", "panic: test timed out after 3s"}, "nobuild": {failed, "undefined: undefined"},
	} {
		_, text, found := strings.Cut(printed, "FAIL m/"+name+want[0]+"\n")
		require.True(t, found, name)
		text, _, _ = strings.Cut(text, "\nFAIL m/")
		assert.Contains(t, text, want[1], name)
	}
	for _, name := range []string{"good", "empty", "none"} {
		assert.NotContains(t, printed, "FAIL m/"+name)
	}
}

func TestExcerpt(t *testing.T) {
	numbered := func(prefix string, n int) []string {
		lines := make([]string, n)
		for i := range lines {
			lines[i] = prefix + strconv.Itoa(i+1) + "\n"
		}
		return lines
	}
	const warning = "    logger.go:146: 2026-11-21T02:21:59.285Z\tWARN\tm0\tslow\n"
	require.Empty(t, excerpt(nil))
	require.Equal(t, "a\n"+warning+"(without 3 lines)\n", excerpt([]string{
		"    logger.go:146: 2026-11-21T02:21:59.285Z\tINFO\tm0\tstarting\n",
		"        logger.go:146: 2026-11-21T02:21:59.285Z\tDEBUG\tm0\tdialing\n",
		`{"level":"info","msg":"served"}` + "\n",
		"a\n", warning,
	}))
	long := excerpt(numbered("line ", 1000))
	require.True(t, strings.HasPrefix(long, "line 801\n"))
	require.True(t, strings.HasSuffix(long, "line 1000\n(without 800 lines)\n"))

	dump := excerpt(append(numbered("line ", 300), append([]string{"panic: test timed out after 10m0s\n"}, numbered("goroutine ", 5000)...)...))
	require.True(t, strings.HasPrefix(dump, "line 101\n"))
	require.Contains(t, dump, "line 300\npanic: test timed out after 10m0s\ngoroutine 1\n")
	require.True(t, strings.HasSuffix(dump, "goroutine 199\n(without 4901 lines)\n"))
}
