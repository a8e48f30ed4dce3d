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

// identity compares what apidiff treats as equal: the name of the package, and whether a type is a defined type or an
// alias. A type switch with cases for a type and for its alias does not compile.
func identity(official, ours *types.Package) (incompatible []string) {
	if official.Name() != ours.Name() {
		incompatible = append(incompatible, fmt.Sprintf("package %s: is called %s", official.Name(), ours.Name()))
	}
	for _, name := range source.Exported(official) {
		want, wanted := official.Scope().Lookup(name).(*types.TypeName)
		got, found := ours.Scope().Lookup(name).(*types.TypeName)
		if wanted && found && !want.IsAlias() && got.IsAlias() {
			incompatible = append(incompatible, name+": is an alias and no type of its own")
		}
	}
	return incompatible
}

// layout compares what apidiff does not look at in exported structs: the tags of fields, which encoders read; the whole
// of a struct that was defined from one of another module, to which values are converted; and, as a note, whether a
// literal without field names still compiles.
func layout(official, ours *types.Package) (incompatible, notes []string) {
	for _, name := range source.Exported(official) {
		want, got := structOf(official, name), structOf(ours, name)
		if want == nil || got == nil {
			continue // apidiff reports a struct that is missing or is none
		}
		incompatible = append(incompatible, compareTags(name, want, got)...)
		if line := compareForeign(name, official, ours); line != "" {
			incompatible = append(incompatible, line)
		}
		if line := compareUnkeyed(name, want, got); line != "" {
			notes = append(notes, line)
		}
	}
	return incompatible, notes
}

func structOf(pkg *types.Package, name string) *types.Struct {
	object, ok := pkg.Scope().Lookup(name).(*types.TypeName)
	if !ok {
		return nil
	}
	s, _ := object.Type().Underlying().(*types.Struct)
	return s
}

func compareTags(name string, want, got *types.Struct) []string {
	tags := make(map[string]string)
	for i := range got.NumFields() {
		tags[got.Field(i).Name()] = got.Tag(i)
	}
	var changed []string
	for i := range want.NumFields() {
		field := want.Field(i)
		if tag, ok := tags[field.Name()]; ok && field.Exported() && tag != want.Tag(i) {
			changed = append(changed, fmt.Sprintf("%s.%s: tag changed from %q to %q", name, field.Name(), want.Tag(i), tag))
		}
	}
	return changed
}

// compareForeign compares the structs exactly if the official one is defined from another module's, as its unexported
// fields show: values of the two types are converted to each other, which takes identical fields.
func compareForeign(name string, official, ours *types.Package) string {
	want, got := structOf(official, name), structOf(ours, name)
	foreign := slices.ContainsFunc(slices.Collect(want.Fields()), func(field *types.Var) bool {
		return !field.Exported() && field.Pkg().Path() != official.Path()
	})
	if !foreign || definition(want) == definition(got) {
		return ""
	}
	return fmt.Sprintf("%s: can no longer be converted to the type that it is defined from", name)
}

// definition writes a struct with the package of each unexported field, which [types.TypeString] leaves out.
func definition(s *types.Struct) string {
	var b strings.Builder
	for i := range s.NumFields() {
		fmt.Fprintf(&b, "%s %s %q\n", s.Field(i).Id(), types.TypeString(s.Field(i).Type(), nil), s.Tag(i))
	}
	return b.String()
}

// compareUnkeyed reports a struct that could be written without field names and no longer can.
func compareUnkeyed(name string, want, got *types.Struct) string {
	was, is := fieldNames(want), fieldNames(got)
	if slices.ContainsFunc(slices.Collect(want.Fields()), unexported) || slices.Equal(was, is) {
		return ""
	}
	how := "other fields, or another order: " + strings.Join(is, ", ")
	if len(is) > len(was) && slices.Equal(was, is[:len(was)]) {
		how = "more fields: " + strings.Join(is[len(was):], ", ")
	}
	return fmt.Sprintf("%s{…} without field names does not compile: it has %s", name, how)
}

func unexported(field *types.Var) bool { return !field.Exported() }

func fieldNames(s *types.Struct) []string {
	var names []string
	for field := range s.Fields() {
		names = append(names, field.Name())
	}
	return names
}

// Table is the outcome package by package, as text, with the sums in its last line.
func Table(reports []Report) string {
	all, width := Report{Path: "all"}, len("package")
	for _, r := range reports {
		width = max(width, len(title(r)))
		all.Identifiers += r.Identifiers
		all.Missing = append(all.Missing, r.Missing...)
		all.Incompatible = append(all.Incompatible, r.Incompatible...)
		all.Added = append(all.Added, r.Added...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s  identifiers  missing  incompatible  added\n", width, "package")
	for _, r := range slices.Concat(reports, []Report{all}) {
		fmt.Fprintf(&b, "%-*s  %11d  %7d  %12d  %5d\n", width, title(r), r.Identifiers, len(r.Missing), len(r.Incompatible), len(r.Added))
	}
	return b.String()
}

// Page is the list of what ours adds, as Markdown.
func Page(reports []Report) string {
	var b strings.Builder
	b.WriteString("<!-- Code generated by TestAPIIsTheOfficialOne of compat. DO NOT EDIT. -->\n\n# What Quorate adds to the official client's API\n\n" +
		"Everything that the official packages export is there with the same meaning. Programs that stay with it can move back;\n" +
		"what is listed here is ours.\n")
	for _, r := range reports {
		if len(r.Added)+len(r.Notes) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", title(r))
		for _, line := range r.Added {
			fmt.Fprintf(&b, "- `%s`\n", line)
		}
		for _, line := range r.Notes {
			fmt.Fprintf(&b, "- Note: `%s`\n", line)
		}
	}
	return b.String()
}

func title(r Report) string {
	if below := source.Relative(r.Path); below != "" {
		return below
	}
	return "clientv3"
}
