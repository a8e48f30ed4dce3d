package quorate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	goBlock  = regexp.MustCompile("(?s)```go\n(.*?)```")
	imported = regexp.MustCompile(`(?m)^"\S+"$`) // a file imports others in between
	omitted  = regexp.MustCompile(`\n(…\n)+`)
)

// TestSnippetsAreCompiled finds every line of Go in README and docs in a test, where it is
// compiled. A line with … stands for what a reader does not need; the lines between two of
// them are together in the test, too.
func TestSnippetsAreCompiled(t *testing.T) {
	var compiled []string
	for _, file := range goFiles(t) {
		if file.test() {
			compiled = append(compiled, flat(string(file.text)))
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	var blocks int
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range goBlock.FindAllStringSubmatch(string(text), -1) {
			blocks++
			for _, part := range omitted.Split(imported.ReplaceAllString(flat(block[1]), "$0\n…"), -1) {
				found := slices.ContainsFunc(compiled, func(c string) bool { return strings.Contains(c, "\n"+strings.Trim(part, "\n")+"\n") })
				assert.True(t, found, "%s shows Go that no test compiles:\n%s", page, part)
			}
		}
	}
	assert.NotZero(t, blocks)
}

// flat returns lines without indentation, alignment, empty lines and the word import.
func flat(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		switch line = strings.TrimPrefix(line, "import "); line {
		case "", "(", ")":
		default:
			lines = append(lines, line)
		}
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}
