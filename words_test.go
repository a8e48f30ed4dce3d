package quorate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// avoidedWords are words that names do not contain, and the terms that are used instead: the
// glossary of DESIGN.md has them.
var avoidedWords = map[string]string{
	"blame":    "suspect",
	"bury":     "end, not found",
	"cloud":    "mark stale",
	"crowd":    "many",
	"darken":   "disconnect",
	"disown":   "invalidate",
	"doom":     "schedule a delete",
	"era":      "history",
	"farewell": "close",
	"glance":   "probe",
	"greeting": "first response",
	"hasty":    "early",
	"hurry":    "reconnect soon",
	"inquiry":  "probe",
	"judge":    "evaluate",
	"maroon":   "isolate",
	"mood":     "state",
	"mute":     "unresponsive",
	"sight":    "sync state",
	"stir":     "activity",
	"stranger": "unknown endpoint",
	"sweeper":  "cleanup",
	"teller":   "publisher",
	"tenure":   "session",
	"trail":    "trace",
	"traits":   "properties",
}

// TestNamesUseTermsOfTheField checks what is declared, and the names of files, in all modules.
func TestNamesUseTermsOfTheField(t *testing.T) {
	files := 0
	check := func(name, where string) {
		for _, word := range wordsOf(name) {
			if term, avoided := avoidedWords[word]; avoided {
				t.Errorf("%s: %q has %q; say %s", where, name, word, term)
			}
		}
	}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		files++
		check(strings.TrimSuffix(entry.Name(), ".go"), path)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, name := range declaredNames(file) {
			check(name.Name, fset.Position(name.Pos()).String())
		}
		return nil
	}))
	assert.Greater(t, files, 500)
}

// declaredNames returns the names of functions, methods, types, fields, constants and variables that
// are declared outside of functions.
func declaredNames(file *ast.File) []*ast.Ident {
	var names []*ast.Ident
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			names = append(names, f.Name)
			continue
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.TypeSpec:
				names = append(names, n.Name)
			case *ast.ValueSpec:
				names = append(names, n.Names...)
			case *ast.Field:
				names = append(names, n.Names...)
			}
			return true
		})
	}
	return names
}

// wordsOf splits a name at underscores and where lower case becomes upper case.
func wordsOf(name string) []string {
	runes := []rune(name)
	var words []string
	begin := 0
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || runes[i] == '_' || unicode.IsUpper(runes[i]) && unicode.IsLower(runes[i-1]) {
			words = append(words, strings.ToLower(strings.Trim(string(runes[begin:i]), "_")))
			begin = i
		}
	}
	return words
}

func TestWordsOf(t *testing.T) {
	for name, want := range map[string][]string{
		"x":             {"x"},
		"TestSightOfIt": {"test", "sight", "of", "it"},
		"sync_state":    {"sync", "state"},
		"newHTTPServer": {"new", "httpserver"},
	} {
		assert.True(t, slices.Equal(want, wordsOf(name)), "%s: %q", name, wordsOf(name))
	}
}
