package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/fatal"
)

const (
	// packageTimeout ends a package that hangs. The slowest one takes a minute and a
	// half.
	packageTimeout = 10 * time.Minute
	// endTimeout is how long the go command and the tests may take to end after an
	// interrupt.
	endTimeout = 10 * time.Second
)

// event is one line of "go test -json"; "go doc test2json" explains its fields.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	ImportPath  string  // the package of build output
	FailedBuild string  // the ImportPath of the failed build
}

// goTest runs the tests of a selection and hands the events of "go test -json" to take. That tests fail is no error. It ends with
// the first error, see package fatal.
func (b *build) goTest(ctx context.Context, opts options, stderr io.Writer, take func(event)) {
	args := []string{"test", "-json", "-count=1", "-vet=off", "-timeout=" + packageTimeout.String(), "-p=" + strconv.Itoa(opts.parallel)}
	if len(b.suite.fixtures) > 0 {
		// What "go test" puts before the command line of a test program: it changes to the build's folder.
		args = append(args, `-exec=sh -c 'cd "$0" && exec "$@"' "`+b.folder()+`"`)
	}
	cmd := b.goCommand(ctx, slices.Concat(args, b.flags, opts.arguments())...)
	cmd.Stderr = stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = endTimeout
	out := fatal.OK(cmd.StdoutPipe())
	fatal.If(cmd.Start())
	decoded := eachEvent(out, take)
	_, _ = io.Copy(io.Discard, out) // so that it can end
	err := cmd.Wait()
	fatal.If(ctx.Err())
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		err = nil // the events tell why
	}
	fatal.If(errors.Join(decoded, err))
}

func eachEvent(r io.Reader, take func(event)) error {
	for events := json.NewDecoder(r); ; {
		var e event
		err := events.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("go test -json printed what is no event: %w", err)
		}
		take(e)
	}
}

// report prints a line for each package of a selection when it ends, with the output of what failed.
type report struct {
	selection
	to    io.Writer
	width int // the width of the column of packages

	waiting map[string]*packageRun // the packages that have not ended, by import path
	builds  map[string][]string    // what compilers printed, by ImportPath
	sum     counts
	ok      bool // no package has failed
}

// counts are those of tests, without their subtests. unclean are those among the skipped that found goroutines of others.
type counts struct{ passed, failed, skipped, unclean int }

// foundGoroutines is what a test of etcd's says when it skips itself because goroutines run before it begins.
const foundGoroutines = "Found leaked goroutined BEFORE test"

// packageRun is a package whose tests run.
type packageRun struct {
	suitePackage
	counts
	output map[string][]string // of tests that have not passed; "" is what belongs to none
}

// newReport prints what is run, and the names of the columns.
func newReport(to io.Writer, s selection, client string) *report {
	r := &report{selection: s, to: to, width: 22, waiting: make(map[string]*packageRun), builds: make(map[string][]string), ok: true}
	for _, p := range s.packages {
		r.width = max(r.width, len(p.name))
		r.waiting[s.suite.importPath(p)] = &packageRun{suitePackage: p, output: make(map[string][]string)}
	}
	r.printf("%s over %s\n\n", s.suite.title, client)
	r.printf("%-*s %6s %6s %7s %8s\n", r.width, "package", "passed", "failed", "skipped", "seconds")
	return r
}

// printf ignores errors: the report has no reader then.
func (r *report) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.to, format, args...) }

// add takes an event.
func (r *report) add(e event) {
	if e.Action == "build-output" {
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
		return
	}
	p := r.waiting[e.Package]
	if p == nil {
		return
	}
	test, _, isSub := strings.Cut(e.Test, "/")
	switch {
	case e.Action == "output":
		p.output[test] = append(p.output[test], e.Output)
	case isSub:
	case test == "" && slices.Contains([]string{"pass", "fail", "skip"}, e.Action):
		why := ""
		if e.Action == "fail" {
			why = "it failed although none of its tests did"
		}
		r.end(e.Package, e.Elapsed, why, r.builds[e.FailedBuild])
	case e.Action == "run":
		p.output[test] = nil
	case e.Action == "pass":
		p.passed++
		delete(p.output, test)
	case e.Action == "skip":
		p.skipped++
		if strings.Contains(strings.Join(p.output[test], ""), foundGoroutines) {
			p.unclean++
		}
		p.output[""] = append(p.output[""], p.output[test]...) // shown if too many are skipped
		delete(p.output, test)
	}
}

// end prints the line of a package, and the output of the tests that have not passed. If all have passed and the package
// failed, it prints why, and the output of the package.
func (r *report) end(importPath string, seconds float64, why string, build []string) {
	p := r.waiting[importPath]
	delete(r.waiting, importPath)
	own := p.output[""]
	delete(p.output, "")
	p.failed = len(p.output)
	if err := r.audit(p.suitePackage, p.counts); why == "" && err != nil {
		why = err.Error()
	}
	mark := ""
	if why != "" || p.failed > 0 {
		r.ok, mark = false, "  FAIL"
	}
	r.line(p.name, p.counts, fmt.Sprintf(" %8.1f%s", seconds, mark))
	r.sum.passed += p.passed
	r.sum.failed += p.failed
	r.sum.skipped += p.skipped
	for _, test := range slices.Sorted(maps.Keys(p.output)) {
		r.printf("\nFAIL %s %s\n%s\n", importPath, test, excerpt(p.output[test]))
	}
	if why != "" && p.failed == 0 {
		r.printf("\nFAIL %s: %s\n%s\n", importPath, why, excerpt(append(build, own...)))
	}
}

func (r *report) line(name string, c counts, rest string) {
	r.printf("%-*s %6d %6d %7d%s\n", r.width, name, c.passed, c.failed, c.skipped, rest)
}

// finish prints the packages that have not ended, and the sum.
func (r *report) finish(took time.Duration) {
	for _, importPath := range slices.Sorted(maps.Keys(r.waiting)) {
		r.end(importPath, 0, "it did not end", nil)
	}
	if r.ok && r.sum.passed == 0 {
		r.ok = false
		r.printf("no test passed: none was found\n")
	}
	r.line("all", r.sum, "")
	r.printf("\n%v with compiling\n", took.Round(time.Second))
}

// excerptLines is how many lines are shown of each of the two parts of a failed
// test's output: from its end without a panic, and from the start of the panic.
const excerptLines = 200

var (
	// chatter is what the servers and clients log while all is well. It is most of
	// the output: tens of megabytes.
	chatter = regexp.MustCompile(`^\s*(logger\.go:\d+: \S+\s+(DEBUG|INFO)\s|\{"level":"(debug|info)")`)
	// crash begins what the runtime prints when the tests end early; goroutines
	// follow, in their thousands.
	crash = regexp.MustCompile(`^(panic: |fatal error: |SIG[A-Z]+: )`)
)

// excerpt returns the lines of a failed test's output by which it is understood.
func excerpt(output []string) string {
	lines := slices.DeleteFunc(slices.Clone(output), chatter.MatchString)
	at := slices.IndexFunc(lines, crash.MatchString)
	if at < 0 {
		at = len(lines)
	}
	begin, end := max(at-excerptLines, 0), min(at+excerptLines, len(lines))
	text := strings.Join(lines[begin:end], "")
	if n := len(output) - (end - begin); n > 0 {
		text += fmt.Sprintf("(without %d lines)\n", n)
	}
	return text
}
