package api

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"github.com/quorate/quorate/compat/internal/source"
)

// Declarations lists what a package exports, a line for each constant, variable, function, type, field and method, sorted.
func Declarations(pkg *types.Package) []string {
	d := declarations{qualifier: func(other *types.Package) string {
		if other == pkg {
			return ""
		}
		return strings.TrimPrefix(other.Path(), source.Module+"/")
	}}
	for _, name := range source.Exported(pkg) {
		switch object := pkg.Scope().Lookup(name).(type) {
		case *types.Const:
			d.add("const %s %s = %s", name, types.TypeString(object.Type(), d.qualifier), object.Val().ExactString())
		case *types.TypeName:
			d.typeName(object)
		default:
			d.add("%s", types.ObjectString(object, d.qualifier))
		}
	}
	slices.Sort(d.lines)
	return d.lines
}

type declarations struct {
	qualifier types.Qualifier
	lines     []string
}

func (d *declarations) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *declarations) typeName(name *types.TypeName) {
	underlying := name.Type().Underlying()
	named, ok := name.Type().(*types.Named)
	if !ok { // an alias: what it stands for has its own lines
		d.add("%s", types.ObjectString(name, d.qualifier))
		return
	}
	title := "type " + types.TypeString(named, d.qualifier)
	if named.TypeParams().Len() > 0 {
		title, _, _ = strings.Cut(types.ObjectString(name, d.qualifier), "] ")
		title += "]"
	}
	switch underlying := underlying.(type) {
	case *types.Struct:
		d.add("%s struct", title)
		for field := range underlying.Fields() {
			if field.Exported() {
				d.add("%s struct, %s", title, types.ObjectString(field, d.qualifier))
			}
		}
	case *types.Interface:
		d.add("%s interface", title)
		for method := range underlying.Methods() {
			// An unexported method matters too: no other package can implement the interface.
			d.add("%s interface, %s%s", title, method.Name(), strings.TrimPrefix(types.TypeString(method.Type(), d.qualifier), "func"))
		}
	default:
		d.add("%s %s", title, types.TypeString(underlying, d.qualifier))
	}
	for method := range named.Methods() {
		if method.Exported() {
			d.add("%s", types.ObjectString(method, d.qualifier))
		}
	}
}
