package shim

import (
	"fmt"
	"go/types"
	"strings"
)

// nameable fails when the declaration of object, which is of type t, has to name a type that another module cannot.
func (w *writer) nameable(object types.Object, t types.Type) error {
	hidden := findHidden(t)
	if hidden == nil {
		return nil
	}
	return fmt.Errorf("%s.%s mentions %s.%s, which the shim cannot name: export it, or an alias of it",
		w.from.Path(), object.Name(), hidden.Pkg().Path(), hidden.Name())
}

// findHidden returns a type that t mentions and that is unexported or in an internal package, or nil.
func findHidden(t types.Type) *types.TypeName {
	switch t := t.(type) {
	case *types.Alias:
		return firstHidden(hiddenName(t.Obj()), hiddenArgs(t.TypeArgs()))
	case *types.Named:
		return firstHidden(hiddenName(t.Obj()), hiddenArgs(t.TypeArgs()))
	case *types.Signature:
		return firstHidden(findHidden(t.Params()), findHidden(t.Results()), hiddenParams(t.TypeParams()))
	case *types.Tuple:
		for v := range t.Variables() {
			if hidden := findHidden(v.Type()); hidden != nil {
				return hidden
			}
		}
	case *types.Map:
		return firstHidden(findHidden(t.Key()), findHidden(t.Elem()))
	case *types.Struct:
		for field := range t.Fields() {
			if hidden := findHidden(field.Type()); hidden != nil {
				return hidden
			}
		}
	case *types.Interface:
		for method := range t.ExplicitMethods() {
			if hidden := findHidden(method.Type()); hidden != nil {
				return hidden
			}
		}
		for embedded := range t.EmbeddedTypes() {
			if hidden := findHidden(embedded); hidden != nil {
				return hidden
			}
		}
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		return findHidden(t.Elem())
	}
	return nil
}

func firstHidden(found ...*types.TypeName) *types.TypeName {
	for _, hidden := range found {
		if hidden != nil {
			return hidden
		}
	}
	return nil
}

func hiddenArgs(list *types.TypeList) *types.TypeName {
	for t := range list.Types() {
		if hidden := findHidden(t); hidden != nil {
			return hidden
		}
	}
	return nil
}

func hiddenParams(list *types.TypeParamList) *types.TypeName {
	for param := range list.TypeParams() {
		if hidden := findHidden(param.Constraint()); hidden != nil {
			return hidden
		}
	}
	return nil
}

// hiddenName returns name if no other module can write it.
func hiddenName(name *types.TypeName) *types.TypeName {
	switch {
	case name.Pkg() == nil: // predeclared
		return nil
	case !name.Exported(), strings.Contains("/"+name.Pkg().Path()+"/", "/internal/"):
		return name
	}
	return nil
}
