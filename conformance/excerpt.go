package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

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
	story, trace := lines[:at], lines[at:]
	var b strings.Builder
	if n := len(story) - excerptLines; n > 0 {
		fmt.Fprintf(&b, "... %d lines\n", n)
		story = story[n:]
	}
	b.WriteString(strings.Join(story, ""))
	if n := len(trace) - excerptLines; n > 0 {
		b.WriteString(strings.Join(trace[:excerptLines], ""))
		fmt.Fprintf(&b, "... %d lines\n", n)
	} else {
		b.WriteString(strings.Join(trace, ""))
	}
	if n := len(output) - len(lines); n > 0 {
		fmt.Fprintf(&b, "(without %d lines of logs below the level of warnings; --log keeps them)\n", n)
	}
	return b.String()
}
