package api

import (
	"fmt"
	"go/types"

	"github.com/quorate/quorate/compat/internal/source"
)

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
