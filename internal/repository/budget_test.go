package repository

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codeBudgets are the most lines of code that each room, a folder of the repository with all below
// it, may have. A budget goes down when code goes; a commit that raises one says why.
var codeBudgets = map[string]codeLines{
	"adapters":    {270, 382},
	"balancer":    {5402, 6754},
	"clientv3":    {22332, 29396},
	"cmd":         {4579, 2660},
	"compat":      {714, 856},
	"conformance": {761, 1348},
	"etcdtest":    {192, 161},
	"examples":    {520, 0},
	"health":      {770, 1528},
	"internal":    {4464, 6312},
	"keepalive":   {485, 1036},
	"lab":         {10428, 15175},
	"observe":     {2366, 2390},
	"pool":        {1983, 3049},
	"resolver":    {3829, 4719},
	"retry":       {1286, 1190},
	"root":        {564, 1144},
}

// slack is how far below its budget a room may be.
const slack = 200

// codeLines counts lines with code on them: no comments, no blank lines, no generated files.
type codeLines struct{ code, test int }

// TestCodeBudget compares the rooms with their budgets. With -v it prints the counts:
//
//	go test ./internal/repository -run TestCodeBudget -v
func TestCodeBudget(t *testing.T) {
	atRoot(t)
	counts := make(map[string]codeLines)
	for _, file := range goFiles(t) {
		if file.generated {
			continue
		}
		count := counts[file.room()]
		if file.test() {
			count.test += linesOfCode(file.text)
		} else {
			count.code += linesOfCode(file.text)
		}
		counts[file.room()] = count
	}
	t.Log("\n" + budgetTable(counts))
	for _, room := range slices.Sorted(maps.Keys(counts)) {
		count, budget := counts[room], codeBudgets[room]
		if !assert.Contains(t, codeBudgets, room, "it has code and no budget: give it one") {
			continue
		}
		assert.Empty(t, overBudget(room, "code", count.code, budget.code))
		assert.Empty(t, overBudget(room, "test code", count.test, budget.test))
	}
	for room := range codeBudgets {
		assert.Contains(t, counts, room, "it has a budget and no code: remove the budget")
	}
}

// overBudget says what is wrong with a count, "" if nothing.
func overBudget(room, kind string, count, budget int) string {
	switch {
	case count > budget:
		return fmt.Sprintf("%s has %d lines of %s, %d over its budget of %d: remove what the change replaces, or raise the budget in the same commit and say why",
			room, count, kind, count-budget, budget)
	case count < budget-slack:
		return fmt.Sprintf("%s has %d lines of %s, %d below its budget of %d: lower the budget to %d",
			room, count, kind, budget-count, budget, (count+49)/50*50)
	}
	return ""
}

func TestOverBudget(t *testing.T) {
	assert.Empty(t, overBudget("pool", "code", 1000, 1000))
	assert.Empty(t, overBudget("pool", "code", 800, 1000))
	assert.Contains(t, overBudget("pool", "code", 1010, 1000), "pool has 1010 lines of code, 10 over its budget of 1000")
	assert.Contains(t, overBudget("pool", "test code", 799, 1000), "lower the budget to 800")
}

func budgetTable(counts map[string]codeLines) string {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(room string, count, budget codeLines) {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t\n", room, count.code, budget.code, count.test, budget.test)
	}
	fmt.Fprintln(out, "room\tcode\tbudget\ttest code\tbudget\t")
	var all, allBudgets codeLines
	for _, room := range slices.Sorted(maps.Keys(counts)) {
		count, budget := counts[room], codeBudgets[room]
		row(room, count, budget)
		all = codeLines{all.code + count.code, all.test + count.test}
		allBudgets = codeLines{allBudgets.code + budget.code, allBudgets.test + budget.test}
	}
	row("all", all, allBudgets)
	out.Flush()
	return text.String()
}

// linesOfCode counts the lines that a token other than a comment is on.
func linesOfCode(text []byte) int {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines, last := 0, 0
	for {
		pos, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return lines
		case tok == token.SEMICOLON && literal == "\n": // the end of a line
			continue
		}
		first := file.Line(pos)
		end := first + strings.Count(literal, "\n")
		lines += end - max(first, last+1) + 1
		last = end
	}
}

func TestLinesOfCode(t *testing.T) {
	for text, want := range map[string]int{
		"":                                     0,
		"package p":                            1,
		"// A comment.\npackage p // here\n\n": 1,
		"package p\n/* two\nlines */ var x, y = 1,\n\t2 /* end */\n": 3,
		"package p\nvar x = `a\n\nb`\nvar y int":                     5,
		"package p\nfunc f() {\n\n}\n":                               3,
	} {
		assert.Equal(t, want, linesOfCode([]byte(text)), "%q", text)
	}
}

// goFile is a file of this repository.
type goFile struct {
	path      string // with slashes
	text      []byte
	generated bool
	fset      *token.FileSet
	syntax    *ast.File
}

func (f goFile) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// room is the first folder of the path.
func (f goFile) room() string {
	if room, _, below := strings.Cut(f.path, "/"); below {
		return room
	}
	return "root"
}

func (f goFile) position(pos token.Pos) string { return f.fset.Position(pos).String() }

// goFiles returns the Go files of all modules, parsed once for all tests.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	files, err := readGoFiles()
	require.NoError(t, err)
	require.Greater(t, len(files), 500)
	return files
}

var readGoFiles = sync.OnceValues(func() (files []goFile, err error) {
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		file := goFile{path: filepath.ToSlash(path), fset: token.NewFileSet()}
		if file.text, err = os.ReadFile(path); err != nil {
			return err
		}
		file.syntax, err = parser.ParseFile(file.fset, path, file.text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		file.generated = ast.IsGenerated(file.syntax)
		files = append(files, file)
		return nil
	})
	return files, err
})
