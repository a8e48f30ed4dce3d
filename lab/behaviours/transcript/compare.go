package transcript

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
)

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
