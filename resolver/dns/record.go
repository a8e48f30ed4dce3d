package dns

import (
	"fmt"
	"slices"
)

// record is what is known of a question: a state machine without I/O.
type record struct {
	enough   int // answers in a row that are believed although they take something away
	backends []backend
	listed   bool // backends is what DNS said, be it nothing
	doubted  int  // answers in a row that were not believed
	failed   int  // failures in a row
	problem  *problem
}

// problem is why there are no backends, or why those that are known may be out of date. As
// long as it is the same, it is the same pointer.
type problem struct {
	text string
}

func (p *problem) Error() string { return "dns: " + p.text }

// answered takes an answer with backends. It reports whether it was believed.
func (r *record) answered(a answer, text string) bool {
	r.failed = 0
	if a.lacks != FamilyAuto && r.has(a.lacks) && !r.convinced() {
		r.trouble(text)
		return false
	}
	r.backends, r.listed, r.doubted, r.problem = a.backends, true, 0, nil
	return true
}

// empty takes an answer that says that there is nothing.
func (r *record) empty(text string) {
	r.failed = 0
	if len(r.backends) == 0 || r.convinced() {
		r.backends, r.listed, r.doubted = nil, true, 0
	}
	r.trouble(text)
}

// failure takes that there is no answer.
func (r *record) failure(text string) {
	r.failed++
	r.doubted = 0
	r.trouble(text)
}

// convinced counts an answer that takes something away, and reports whether it was said
// often enough.
func (r *record) convinced() bool {
	r.doubted++
	return r.doubted >= r.enough
}

func (r *record) trouble(text string) {
	if n := len(r.backends); n > 0 {
		text = fmt.Sprintf("%s (keeping the last good list, of %d)", text, n)
	}
	if r.problem == nil || r.problem.text != text {
		r.problem = &problem{text}
	}
}

func (r *record) has(f Family) bool {
	return slices.ContainsFunc(r.backends, func(b backend) bool {
		for _, a := range b.addrs {
			if familyOf(a) == f {
				return true
			}
		}
		return false
	})
}
