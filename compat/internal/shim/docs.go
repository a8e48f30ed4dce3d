package shim

import (
	"go/ast"
	"go/doc"
	"strings"

	"github.com/quorate/quorate/compat/internal/source"
)

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
