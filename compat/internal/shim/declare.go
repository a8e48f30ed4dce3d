package shim

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/quorate/quorate/compat/internal/source"
	"github.com/quorate/quorate/internal/fatal"
)

// writer collects the declarations of one package of the shim, by kind.
type writer struct {
	from    *source.Package
	docs    docs
	imports imports

	consts, vars, types group
	linked, funcs       strings.Builder
}

// group is declarations of one keyword, which stand between parentheses unless there is only one.
type group []struct{ doc, decl string }

func (g *group) add(doc, format string, args ...any) {
	*g = append(*g, struct{ doc, decl string }{doc, fmt.Sprintf(format, args...)})
}

func (g *group) block(keyword string) string {
	var b strings.Builder
	for _, d := range *g {
		if len(*g) == 1 {
			return fmt.Sprintf("%s%s %s\n", d.doc, keyword, d.decl)
		}
		fmt.Fprintf(&b, "%s%s\n", d.doc, d.decl)
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("%s (\n%s)\n", keyword, b.String())
}

func newWriter(from *source.Package) *writer {
	return &writer{from: from, docs: readDocs(from), imports: newImports(from)}
}

// declare adds the declaration that forwards to one exported object of ours.
func (w *writer) declare(object types.Object) {
	doc, name := w.docs[object.Name()], object.Name()
	switch object := object.(type) {
	case *types.Const:
		w.consts.add(doc, "%s = %s.%[1]s", name, forwarded)
	case *types.TypeName:
		params, args := w.typeParams(typeParamsOf(object))
		w.types.add(doc, "%s%s = %s.%s%s", name, params, forwarded, name, args)
	case *types.Var:
		w.declareVar(doc, object)
	case *types.Func:
		w.declareFunc(doc, object)
	default:
		fatal.If(fmt.Errorf("%s.%s is a %T, which cannot be forwarded", w.from.Path(), name, object))
	}
}

// declareVar copies an error and links any other variable.
func (w *writer) declareVar(doc string, v *types.Var) {
	if types.Implements(v.Type(), errorType) {
		w.vars.add(doc, "%s = %s.%[1]s", v.Name(), forwarded)
		return
	}
	w.imports.names["unsafe"] = "_"
	if doc != "" {
		doc += "//\n"
	}
	name, typ := v.Name(), types.TypeString(v.Type(), w.imports.qualify)
	fmt.Fprintf(&w.linked, "%s//go:linkname %s %s.%s\nvar %s %s\n\n", doc, name, w.from.Path(), name, name, typ)
}

func (w *writer) declareFunc(doc string, f *types.Func) {
	signature := f.Signature()
	named, args, err := nameParams(signature)
	fatal.If(err, w.from.Path()+"."+f.Name())
	typeParams, typeArgs := w.typeParams(signature.TypeParams())
	written := strings.TrimPrefix(types.TypeString(named, w.imports.qualify), "func")
	result := ""
	if signature.Results().Len() > 0 {
		result = "return "
	}
	fmt.Fprintf(&w.funcs, "%sfunc %s%s%s {\n%s%s.%s%s(%s)\n}\n\n",
		doc, f.Name(), typeParams, written, result, forwarded, f.Name(), typeArgs, args)
}

// nameParams returns the signature with a name for every parameter, and the arguments that pass all of them on.
func nameParams(signature *types.Signature) (*types.Signature, string, error) {
	params := make([]*types.Var, signature.Params().Len())
	names := make([]string, len(params))
	for i := range params {
		param := signature.Params().At(i)
		names[i] = param.Name()
		if names[i] == "" || names[i] == "_" {
			names[i] = fmt.Sprintf("arg%d", i)
		}
		if names[i] == forwarded {
			return nil, "", fmt.Errorf("a parameter is called %s, as the import that the call goes to", forwarded)
		}
		params[i] = types.NewParam(param.Pos(), param.Pkg(), names[i], param.Type())
	}
	args := strings.Join(names, ", ")
	if signature.Variadic() {
		args += "..."
	}
	// Type parameters are written by the caller: a signature that has them cannot be built from another's.
	return types.NewSignatureType(nil, nil, nil, types.NewTuple(params...), signature.Results(), signature.Variadic()), args, nil
}

// typeParams returns a list of type parameters as it is declared, and as it is passed on.
func (w *writer) typeParams(list *types.TypeParamList) (params, args string) {
	if list.Len() == 0 {
		return "", ""
	}
	var declared, passed []string
	for param := range list.TypeParams() {
		declared = append(declared, param.Obj().Name()+" "+types.TypeString(param.Constraint(), w.imports.qualify))
		passed = append(passed, param.Obj().Name())
	}
	return "[" + strings.Join(declared, ", ") + "]", "[" + strings.Join(passed, ", ") + "]"
}

func typeParamsOf(name *types.TypeName) *types.TypeParamList {
	if t, ok := name.Type().(interface{ TypeParams() *types.TypeParamList }); ok {
		return t.TypeParams()
	}
	return nil
}

var errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

// forwarded is the name by which a file of the shim imports the package that it forwards to.
const forwarded = "quorate"

// imports are the imports of one generated file: names by import path.
type imports struct {
	from  *types.Package
	names map[string]string
}

func newImports(from *source.Package) imports {
	return imports{from: from.Package, names: map[string]string{from.Path(): forwarded}}
}

// qualify is a [types.Qualifier]: it returns the name of a package and imports it. The shim's package stands for one of
// ours, because its types are aliases; types of the package itself need no qualifier.
func (i imports) qualify(pkg *types.Package) string {
	if pkg.Path() == i.from.Path() {
		return ""
	}
	importPath := source.ToOfficial(pkg.Path())
	if name := i.names[importPath]; name != "" {
		return name
	}
	name, taken := pkg.Name(), slices.Collect(maps.Values(i.names))
	for n := 2; slices.Contains(taken, name); n++ {
		name = fmt.Sprint(pkg.Name(), n)
	}
	i.names[importPath] = name
	return name
}

// source is the list of imports.
func (i imports) source() string {
	var b strings.Builder
	for _, importPath := range slices.Sorted(maps.Keys(i.names)) {
		if name := i.names[importPath]; name != path.Base(importPath) {
			b.WriteString(name + " ")
		}
		fmt.Fprintf(&b, "%q\n", importPath)
	}
	return b.String()
}

// docs are the comments of the generated declarations by identifier: the first sentence of ours, and what is said of
// its deprecation, which tools look for.
type docs map[string]string

func readDocs(pkg *source.Package) docs {
	d := make(docs)
	for _, file := range pkg.Files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil {
					d.add(decl.Name, decl.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					d.addSpec(decl, spec)
				}
			}
		}
	}
	return d
}

// addSpec reads one line of a declaration. What stands above the whole of it is about that line if it is the only one.
func (d docs) addSpec(decl *ast.GenDecl, spec ast.Spec) {
	var above *ast.CommentGroup
	if len(decl.Specs) == 1 {
		above = decl.Doc
	}
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		d.add(spec.Name, spec.Doc, above)
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			d.add(name, spec.Doc, spec.Comment, above)
		}
	}
}

func (d docs) add(name *ast.Ident, candidates ...*ast.CommentGroup) {
	for _, candidate := range candidates {
		if text := candidate.Text(); text != "" {
			d[name.Name] = shorten(text)
			return
		}
	}
}

// shorten returns the comment that a generated declaration has for one of ours.
func shorten(text string) string {
	var p doc.Package
	synopsis := p.Synopsis(text)
	if before, ok := strings.CutSuffix(synopsis, ":"); ok {
		synopsis = before + "." // what it introduces stays behind
	}
	lines := []string{synopsis}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(paragraph, "Deprecated: ") {
			lines = append(lines, "")
			lines = append(lines, strings.Split(paragraph, "\n")...)
		}
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight("// "+line, " ") + "\n")
	}
	return b.String()
}
