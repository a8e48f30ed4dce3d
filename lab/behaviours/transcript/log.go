// Package transcript records what a program observes of a client, reduced to what must be equal between two clients
// that were used the same way against two clusters of their own.
package transcript

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/fatal"
)

// Entry is one step of a program: what was done, what came back.
type Entry struct {
	// Step names the step. It begins with the behaviour's name.
	Step string
	// Result is the result, rendered by field, without what differs from run to run by nature.
	Result string
	// Error describes the error, "" for nil.
	Error string
}

// Log collects the entries of one behaviour. It is for one goroutine.
type Log struct {
	behaviour string
	aliases   []string // pairs of text and alias
	entries   []Entry
}

// Record runs a behaviour and returns what it wrote. The error is one that ended it, by package fatal.
func Record(behaviour string, run func(*Log)) ([]Entry, error) {
	log := &Log{behaviour: behaviour}
	err := fatal.Catch(func() { run(log) })
	if n := len(log.entries); err != nil && n > 0 {
		err = fmt.Errorf("after step %q: %w", log.entries[n-1].Step, err)
	}
	return log.entries, err
}

// Alias writes name in place of text from now on, wherever text appears in results and errors.
func (l *Log) Alias(text, name string) {
	l.aliases = append(l.aliases, text, "<"+name+">")
}

// Step returns a function that records the outcome of a step, to be called with the results of a call:
//
//	log.Step("get")(client.Get(ctx, "key"))
func (l *Log) Step(step string) func(result any, err error) {
	return func(result any, err error) { l.add(step, render(result), err) }
}

// Error records a step that returns nothing but an error.
func (l *Log) Error(step string, err error) { l.add(step, "", err) }

// Value records something that was observed.
func (l *Log) Value(step string, value any) { l.add(step, render(value), nil) }

// Panic calls f and records the value that it panics with.
func (l *Log) Panic(step string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			l.add(step, "panic: "+render(v), nil)
			return
		}
		l.add(step, "no panic", nil)
	}()
	f()
}

func (l *Log) add(step, result string, err error) {
	names := strings.NewReplacer(l.aliases...)
	l.entries = append(l.entries, Entry{
		Step:   l.behaviour + ": " + step,
		Result: names.Replace(result),
		Error:  names.Replace(describe(err)),
	})
}

// Difference is a step whose outcome differs on purpose.
type Difference struct {
	// Step is a part of the step's name, and Server the version that it is about, "" for all.
	Step, Server string
	// One and Other are parts of the results, or of the errors, of the two transcripts. "" stands for no error.
	One, Other string
}

// Compare returns how two transcripts differ, and for each listed difference that fits a step whether it was found. The first
// listed difference that fits a step must be found there.
func Compare(server string, list []Difference, one, other []Entry) (differing []string, listed map[Difference]bool) {
	if d := cmp.Diff(steps(one), steps(other)); d != "" {
		return []string{"the steps differ:\n" + d}, nil
	}
	listed = make(map[Difference]bool)
	for i := range one {
		d, known := fitting(list, one[i].Step, server)
		found := known && one[i] != other[i] && one[i].shows(d.One) && other[i].shows(d.Other)
		if known {
			listed[d] = listed[d] || found
		}
		if one[i] != other[i] && !found {
			differing = append(differing, fmt.Sprintf("%s differs:\n%s", one[i].Step, cmp.Diff(one[i], other[i])))
		}
	}
	return differing, listed
}

func steps(entries []Entry) []string {
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Step)
	}
	return names
}

func fitting(list []Difference, step, server string) (Difference, bool) {
	for _, d := range list {
		if strings.Contains(step, d.Step) && (d.Server == "" || d.Server == server) {
			return d, true
		}
	}
	return Difference{}, false
}

// shows reports whether an entry contains part, or has no error if part is empty.
func (e Entry) shows(part string) bool {
	if part == "" {
		return e.Error == ""
	}
	return strings.Contains(e.Result, part) || strings.Contains(e.Error, part)
}
