package api

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"

	"github.com/quorate/quorate/compat/internal/source"
)

// forwards lists what the shim's package does not pass on from ours, or passes on as something else. Both packages must
// come from one load. It reports nothing if ours is nil: there is nothing to forward.
func forwards(shim, ours *types.Package) []string {
	if ours == nil {
		return nil
	}
	if shim == nil {
		return []string{"the package is not in the shim"}
	}
	var wrong []string
	for _, name := range source.Exported(ours) {
		if problem := forwarding(shim.Scope().Lookup(name), ours.Scope().Lookup(name)); problem != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s by the shim", name, problem))
		}
	}
	for _, name := range source.Exported(shim) {
		if ours.Scope().Lookup(name) == nil {
			wrong = append(wrong, name+": made up by the shim")
		}
	}
	return wrong
}

// forwarding says what is wrong with an object of the shim that stands for one of ours, "" if nothing.
func forwarding(shim, ours types.Object) string {
	if shim == nil {
		return "left out"
	}
	same := false
	switch ours := ours.(type) {
	case *types.Const:
		if c, ok := shim.(*types.Const); ok {
			same = types.Identical(c.Type(), ours.Type()) && constant.Compare(c.Val(), token.EQL, ours.Val())
		}
	case *types.Var:
		if v, ok := shim.(*types.Var); ok {
			same = types.Identical(v.Type(), ours.Type())
		}
	case *types.Func:
		if f, ok := shim.(*types.Func); ok {
			same = types.Identical(f.Type(), ours.Type())
		}
	case *types.TypeName:
		if t, ok := shim.(*types.TypeName); ok {
			same = sameType(t.Type(), ours.Type())
		}
	}
	if !same {
		return "changed"
	}
	return ""
}

// sameType compares a type with the one that it should be an alias of. Generic types are compared as declared.
func sameType(alias, t types.Type) bool {
	if a, ok := alias.(*types.Alias); ok && a.TypeParams().Len() > 0 {
		named, ok := types.Unalias(a.Rhs()).(*types.Named)
		return ok && named.Origin() == types.Unalias(t) && a.TypeParams().Len() == named.TypeParams().Len()
	}
	return types.Identical(alias, t)
}
