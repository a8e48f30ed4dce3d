package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// table prints results as they come, a line for each package, and at its foot the
// output of what failed.
type table struct {
	to        io.Writer
	selection selection
	width     int            // of the column of packages
	missing   []suitePackage // of which there is no result yet
	sum       result
	failed    []result
	ok        bool  // no package has failed
	err       error // the first of writing
}

func newTable(to io.Writer, s selection) *table {
	t := &table{to: to, selection: s, width: 22, missing: s.packages, ok: true}
	for _, p := range s.packages {
		t.width = max(t.width, len(p.name))
	}
	return t
}

func (t *table) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.to, format, args...)
	}
}

// head prints what is run, and the names of the columns.
func (t *table) head(client string) {
	t.printf("%s over %s\n\n", t.selection.suite.title, client)
	t.printf("%-*s %6s %6s %7s %8s\n", t.width, "package", "passed", "failed", "skipped", "seconds")
}

// row prints the line of a package.
func (t *table) row(r result) {
	r = t.evaluate(r)
	t.line(strings.TrimPrefix(strings.TrimPrefix(r.importPath, t.selection.suite.root), "/"), r)
	t.sum.passed += r.passed
	t.sum.failed += r.failed
	t.sum.skipped += r.skipped
	t.sum.seconds += r.seconds
	if len(r.failures) > 0 {
		t.ok = false
		t.failed = append(t.failed, r)
	}
}

func (t *table) line(name string, r result) {
	var mark string
	if len(r.failures) > 0 {
		mark = "  FAIL"
	}
	if name == "" {
		name = "."
	}
	t.printf("%-*s %6d %6d %7d %8.1f%s\n", t.width, name, r.passed, r.failed, r.skipped, r.seconds, mark)
}

// evaluate adds to a good result what is wrong with the number of its tests.
func (t *table) evaluate(r result) result {
	waiting := make([]suitePackage, 0, len(t.missing))
	for _, p := range t.missing {
		if t.selection.suite.importPath(p) != r.importPath {
			waiting = append(waiting, p)
			continue
		}
		if err := t.selection.audit(p, r); err != nil && len(r.failures) == 0 {
			r.failures = append(r.failures, failure{reason: err.Error()})
		}
	}
	t.missing = waiting
	return r
}

// foot prints the lines of packages without a result, the sum, and what failed.
func (t *table) foot(took time.Duration) {
	for _, p := range t.missing {
		t.row(result{importPath: t.selection.suite.importPath(p), failures: []failure{{reason: "it was not run"}}})
	}
	if t.ok && t.sum.passed == 0 {
		t.ok = false
		t.printf("no test passed: none was found\n")
	}
	t.line("all", t.sum)
	t.printf("\n%v with compiling\n", took.Round(time.Second))
	for _, r := range t.failed {
		for _, f := range r.failures {
			t.printf("\nFAIL %s\n%s", f.title(r), excerpt(f.output))
		}
	}
}

// title names the failure of a result in one line.
func (f failure) title(of result) string {
	title := of.importPath
	if f.test != "" {
		title += " " + f.test
	}
	if f.reason != "" {
		title += ": " + f.reason
	}
	return title
}
