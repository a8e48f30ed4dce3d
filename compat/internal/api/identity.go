package api

import (
	"fmt"
	"go/types"

	"github.com/quorate/quorate/compat/internal/source"
)

// identity compares what apidiff takes for the same: the name by which a program that imports the package knows it,
// and whether a type is one of its own. A type switch with a case for a type and one for what that has become an alias
// of does not compile.
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
