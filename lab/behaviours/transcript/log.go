// Package transcript records what a program observes of a client, reduced to what must be equal between two clients
// that were used the same way against two clusters of their own.
package transcript

import (
	"fmt"
	"strings"

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
