package repository

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
)

// avoidedWords are words that names do not contain, and the terms that are used instead: the
// glossary of DESIGN.md has them.
var avoidedWords = map[string]string{
	"blame":     "suspect",
	"bury":      "end, not found",
	"cloud":     "mark stale",
	"crowd":     "many",
	"darken":    "disconnect",
	"debt":      "expectation, undelivered",
	"debtor":    "subscriber",
	"deck":      "upcoming",
	"dialler":   "dialer",
	"disown":    "invalidate",
	"doom":      "schedule a delete",
	"era":       "history",
	"farewell":  "close",
	"fate":      "effect",
	"glance":    "probe",
	"greeting":  "first response",
	"hasty":     "early",
	"hoarding":  "never releasing",
	"hopeless":  "give up",
	"hurry":     "reconnect soon",
	"inquiry":   "probe",
	"judge":     "evaluate",
	"judged":    "checked",
	"judges":    "checks",
	"leash":     "pipe",
	"liar":      "wrong, stale",
	"lies":      "wrong, false",
	"lying":     "wrong, false",
	"maroon":    "isolate",
	"mood":      "state",
	"mute":      "unresponsive",
	"newcomer":  "new caller",
	"newcomers": "new callers",
	"news":      "change",
	"owe":       "have to deliver",
	"owed":      "undelivered",
	"owing":     "undelivered",
	"raging":    "running",
	"sight":     "sync state",
	"sighting":  "observation",
	"stir":      "activity",
	"stranger":  "unknown endpoint",
	"suffer":    "hold, inject",
	"sweeper":   "cleanup",
	"teller":    "publisher",
	"tenure":    "session",
	"told":      "updates, received",
	"trail":     "trace",
	"traits":    "properties",
	"wish":      "request",
	"wishes":    "requests",
}

// TestNamesUseTermsOfTheField checks what is declared, and the names of packages, folders and files,
// in all modules.
func TestNamesUseTermsOfTheField(t *testing.T) {
	atRoot(t)
	check := func(name, where string) {
		for _, word := range wordsOf(name) {
			if term, avoided := avoidedWords[word]; avoided {
				t.Errorf("%s: %q has %q; say %s", where, name, word, term)
			}
		}
	}
	folders := make(map[string]bool)
	for _, file := range goFiles(t) {
		if folder := path.Dir(file.path); !folders[folder] {
			folders[folder] = true
			check(path.Base(folder), folder)
			check(file.syntax.Name.Name, folder)
		}
		check(strings.TrimSuffix(path.Base(file.path), ".go"), file.path)
		for _, name := range declaredNames(file.syntax) {
			check(name.Name, file.position(name.Pos()))
		}
	}
}

// oddWords are words that comments do without: a plain verb with a subject says the same. Each is a
// pattern for a whole word.
var oddWords = []string{
	"anybody", "befalls?", "befell", "beliefs?", "believ(e|es|ed|ing)", "blam(e|es|ed)", "boasts?", "c(a|o)mes? of",
	"changed its mind", "crowds?", "debtors?", "debts?", "decks?", "doom(s|ed)?", "everybody", "fate", "good order",
	"greet(s|ed|ing)?", "hear", "hears", "hoard(s|ing)?", "hopeless", "insists?", "judg(e|es|ed|ing)", "judge?ments?", "leash",
	"ledgers?", "lie", "lies", "lying", "moods?", "newcomers?", "news", "nobody", "obeys?", "owe[sd]?", "owing", "pretends?",
	"rag(es|ing)", "sightings?", "somebody", "stories", "story", "suffer(s|ed|ing)?", "swears?", "told", "vain", "whoever",
	"wish(es)?", "worlds?", "yardstick",
}

// TestCommentsUsePlainWords checks the comments of all modules.
func TestCommentsUsePlainWords(t *testing.T) {
	atRoot(t)
	odd := regexp.MustCompile(`(?i)\b(` + strings.Join(oddWords, "|") + `)\b`)
	for room, lines := range commentLines(t, odd) {
		t.Errorf("%s: write these comments in plain words:\n%s", room, strings.Join(lines, "\n"))
	}
}

// needsLock is how comments say what the suffix Locked of a name says.
var needsLock = regexp.MustCompile(`(?i)needs? (the|its) ([a-z]+'s )?locks?\b|called with the lock held|caller holds ([a-z]+\.)?mu\b`)

// TestNamesSayWhatNeedsALock checks that a function which needs its caller to hold a lock says so by
// the suffix Locked of its name, and not in its comment.
func TestNamesSayWhatNeedsALock(t *testing.T) {
	atRoot(t)
	for _, file := range goFiles(t) {
		for _, group := range file.syntax.Comments {
			if text := strings.Join(strings.Fields(group.Text()), " "); needsLock.MatchString(text) {
				t.Errorf("%s: %q: name the function with the suffix Locked instead", file.position(group.Pos()), needsLock.FindString(text))
			}
		}
	}
}

// commentLines returns by room the lines of comments that match, with their places.
func commentLines(t *testing.T, pattern *regexp.Regexp) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	for _, file := range goFiles(t) {
		if file.generated {
			continue
		}
		for _, group := range file.syntax.Comments {
			for _, comment := range group.List {
				first := file.fset.Position(comment.Pos()).Line
				for i, line := range strings.Split(comment.Text, "\n") {
					if pattern.MatchString(line) {
						found[file.room()] = append(found[file.room()], fmt.Sprintf("%s:%d: %s", file.path, first+i, strings.TrimSpace(line)))
					}
				}
			}
		}
	}
	return found
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
