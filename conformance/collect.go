package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// event is one line of "go test -json"; "go doc test2json" explains its fields.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	ImportPath  string  // of build output
	FailedBuild string  // the ImportPath of the failed build
}

// result is the result of a package. Tests are counted without their subtests.
type result struct {
	importPath              string
	passed, failed, skipped int
	seconds                 float64
	failures                []failure
}

// failure is a failed test, or with test "" what failed of the package as a whole.
type failure struct {
	test   string
	reason string // not in the output
	output []string
}

// collector makes results of events. Its zero value is not ready for use; see
// newCollector.
type collector struct {
	packages map[string]*progress
	builds   map[string][]string // output by ImportPath
}

// progress is a package whose tests are running.
type progress struct {
	result
	running []string
	output  map[string][]string // by test; "" is what belongs to none
}

func newCollector() *collector {
	return &collector{packages: map[string]*progress{}, builds: map[string][]string{}}
}

// add processes one line, and returns the result of the package that ended with it.
func (c *collector) add(line []byte) (done *result, err error) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, fmt.Errorf("go test -json printed what is no event: %.200q", line)
	}
	if e.Package == "" {
		if e.Action == "build-output" {
			c.builds[e.ImportPath] = append(c.builds[e.ImportPath], e.Output)
		}
		return nil, nil
	}
	p := c.packages[e.Package]
	if p == nil {
		p = &progress{result: result{importPath: e.Package}, output: map[string][]string{}}
		c.packages[e.Package] = p
	}
	test, _, isSub := strings.Cut(e.Test, "/")
	switch {
	case e.Action == "output":
		p.output[test] = append(p.output[test], e.Output)
	case isSub:
	case test != "":
		p.turn(test, e.Action)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		delete(c.packages, e.Package)
		p.end(e, c.builds[e.FailedBuild])
		return &p.result, nil
	}
	return nil, nil
}

func (p *progress) turn(test, action string) {
	switch action {
	case "run":
		p.running = append(p.running, test)
		return
	case "pass":
		p.passed++
	case "skip":
		p.skipped++
	case "fail":
		p.fail(test, "")
	default: // it was paused, or goes on
		return
	}
	p.running = slices.DeleteFunc(p.running, func(name string) bool { return name == test })
	delete(p.output, test)
}

func (p *progress) fail(test, reason string) {
	p.failed++
	p.failures = append(p.failures, failure{test, reason, p.output[test]})
}

func (p *progress) end(e event, build []string) {
	p.seconds = e.Elapsed
	for _, test := range p.running {
		p.fail(test, "it did not end")
	}
	if e.Action == "fail" && len(p.failures) == 0 {
		p.failures = append(p.failures, failure{"", "it failed although none of its tests did", append(build, p.output[""]...)})
	}
}

// rest returns the results of the packages that began and did not end.
func (c *collector) rest() []result {
	cut := make([]result, 0, len(c.packages))
	for _, p := range c.packages {
		for _, test := range p.running {
			p.fail(test, "it did not end")
		}
		p.failures = append(p.failures, failure{"", "it did not end", p.output[""]})
		cut = append(cut, p.result)
	}
	slices.SortFunc(cut, func(a, b result) int { return strings.Compare(a.importPath, b.importPath) })
	return cut
}
