// Package api compares the official client's exported API with the one that the shim gives in its place.
//
// It compares the official packages with ours at the same import paths, by apidiff and by what apidiff ignores (see
// identity and layout). apidiff cannot look through the shim: it compares types of other packages by name. That the shim
// forwards everything to ours follows from how it is generated, see package shim.
package api

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"

	"github.com/quorate/quorate/compat/internal/source"
)

// Report is the outcome for one package. Each line names one identifier and its difference.
type Report struct {
	// Path is the import path of the official package.
	Path string
	// Identifiers is the number of top-level identifiers that the official package exports.
	Identifiers int
	// Missing is what a program may use and will not find.
	Missing []string
	// Incompatible is what is there in another form.
	Incompatible []string
	// Added is what only ours has.
	Added []string
	// Notes are differences that compile, except in struct literals without field names.
	Notes []string
}

// Passes reports whether every program that compiles with the official package compiles with ours.
func (r *Report) Passes() bool { return len(r.Missing)+len(r.Incompatible) == 0 }

// Check compares packages of the official client with ours, in their order, and compiles the shim.
func Check(tree source.Tree, pairs []source.Pair) []Report {
	renamed := source.AsOfficial(pairs)
	tree.CompileShim()
	reports := make([]Report, len(pairs))
	for i, pair := range pairs {
		reports[i] = Compare(pair.Official, renamed[source.Relative(pair.Official.Path())])
	}
	return reports
}

// Compare compares an official package with ours at the same import path. Ours is nil where the official package
// exports nothing.
func Compare(official, ours *types.Package) Report {
	r := Report{Path: official.Path(), Identifiers: len(source.Exported(official))}
	if ours == nil {
		if r.Identifiers > 0 {
			r.Missing = []string{"the whole package"}
		}
		return r
	}
	for _, change := range apidiff.Changes(official, ours).Changes {
		switch {
		case change.Compatible && strings.HasSuffix(change.Message, ": added"):
			r.Added = append(r.Added, strings.TrimSuffix(change.Message, ": added"))
		case !change.Compatible && strings.HasSuffix(change.Message, ": removed"):
			r.Missing = append(r.Missing, change.Message)
		default:
			// What apidiff calls compatible, such as a wider integer type or a function that became a variable, suits a
			// next version of a package. In a drop-in it is a difference.
			r.Incompatible = append(r.Incompatible, change.Message)
		}
	}
	// A method that an interface must not gain is reported once more for the types that embed it.
	r.Added = slices.DeleteFunc(r.Added, func(line string) bool { return slices.Contains(r.Incompatible, line+": added") })
	r.Incompatible = append(r.Incompatible, identity(official, ours)...)
	incompatible, notes := layout(official, ours)
	r.Incompatible = append(r.Incompatible, incompatible...)
	r.Notes = notes
	for _, list := range [][]string{r.Missing, r.Incompatible, r.Added, r.Notes} {
		slices.Sort(list)
	}
	return r
}

// String is the report as text: one line of counts, then what is behind each count.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d identifiers, %d missing, %d incompatible, %d added\n",
		r.Path, r.Identifiers, len(r.Missing), len(r.Incompatible), len(r.Added))
	for _, section := range []struct {
		title string
		lines []string
	}{{"missing", r.Missing}, {"incompatible", r.Incompatible}, {"note", r.Notes}, {"added", r.Added}} {
		for _, line := range section.lines {
			fmt.Fprintf(&b, "\t%s: %s\n", section.title, line)
		}
	}
	return b.String()
}
