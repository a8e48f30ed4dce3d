package api

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"github.com/quorate/quorate/compat/internal/source"
)

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
