package repository

import (
	"bytes"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	noAnchor  = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)

	testOfDir      = regexp.MustCompile("(?:`([a-z0-9/]+)`\\s+)?\\b((?:Test|Fuzz)[A-Z]\\w*)")
	generatedTable = regexp.MustCompile(`(?s)<!-- begin: make .*<!-- end: make`)
)

// TestLinksLeadSomewhere checks that every relative link of a page leads to a file or
// folder, and its anchor to a heading.
func TestLinksLeadSomewhere(t *testing.T) {
	atRoot(t)
	var links int
	for page, text := range pages(t) {
		for _, m := range mdLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, "code"), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); !assert.NoError(t, err, "%s links to %s", page, m[1]) {
				continue
			}
			if anchor != "" && strings.HasSuffix(target, ".md") {
				assert.Contains(t, anchors(t, target), anchor, "%s links to %s", page, m[1])
			}
		}
	}
	assert.NotZero(t, links)
}

// TestInvariantsNameTests checks that the tests of docs/invariants.md exist in their packages.
func TestInvariantsNameTests(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("docs/invariants.md")
	require.NoError(t, err)
	_, text, _ = bytes.Cut(text, []byte("\n## "))
	dir, declared, tests := "", "", 0
	for _, m := range testOfDir.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "" {
			dir, declared = m[1], declarations(t, m[1])
		}
		tests++
		assert.True(t, strings.Contains(declared, "\nfunc "+m[2]+"("), "%s has no %s", dir, m[2]) //nolint:testifylint // the text is long
	}
	assert.Greater(t, tests, 49)
}

// declarations returns the text of the tests of a package.
func declarations(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range goFiles(t) {
		if file.test() && path.Dir(file.path) == dir {
			all.Write(file.text)
		}
	}
	return all.String()
}

// TestPagesAreShort bounds what a reader has to read: README, DESIGN and docs, without generated tables.
func TestPagesAreShort(t *testing.T) {
	atRoot(t)
	const maxMap, maxWords = 20 << 10, 27_500
	design, err := os.Stat("DESIGN.md")
	require.NoError(t, err)
	assert.LessOrEqual(t, design.Size(), int64(maxMap), "DESIGN.md is a map: specification belongs to docs and to package documentation")
	files, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	words := 0
	for _, file := range append(files, "README.md", "DESIGN.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !bytes.HasPrefix(text, []byte("<!-- Code generated")) {
			words += len(bytes.Fields(generatedTable.ReplaceAll(text, nil)))
		}
	}
	assert.LessOrEqual(t, words, maxWords)
}

// pages returns the text of all Markdown of the repository without its blocks of code.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	require.NoError(t, filepath.WalkDir(".", func(page string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		case strings.HasSuffix(page, ".md"):
			var text []byte
			text, err = os.ReadFile(page)
			all[page] = codeBlock.ReplaceAllString(string(text), "")
		}
		return err
	}))
	return all
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var all []string
	for _, m := range mdHeading.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
		all = append(all, strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

var (
	siteLink     = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	siteResource = regexp.MustCompile(`<(?:script|link|img|iframe)\b[^>]*(?:src|href)="?(?:https?:)?//`)
)

// TestSiteNeedsNoNetwork checks the site that make site has built: its links lead to its own files and headings, or to the web,
// and it loads nothing from there.
func TestSiteNeedsNoNetwork(t *testing.T) {
	atRoot(t)
	root := os.Getenv("QUORATE_SITE")
	if root == "" {
		t.Skip("make site runs it")
	}
	pages := make(map[string]string)
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".html") {
			var text []byte
			text, err = os.ReadFile(path)
			pages[path] = string(text)
		}
		return err
	}))
	require.Greater(t, len(pages), 20)
	for page, text := range pages {
		assert.NotRegexp(t, siteResource, text, page)
		for _, m := range siteLink.FindAllStringSubmatch(text, -1) {
			link, err := url.Parse(m[1])
			require.NoError(t, err)
			if link.IsAbs() {
				continue
			}
			target := page
			if link.Path != "" {
				target = filepath.Join(filepath.Dir(page), link.Path)
			}
			assert.FileExists(t, target, "%s links to %s", page, m[1])
			if link.Fragment != "" && strings.HasSuffix(target, ".html") {
				assert.Contains(t, pages[target], ` id="`+link.Fragment+`"`, "%s links to %s", page, m[1])
			}
		}
	}
}

var (
	goBlock  = regexp.MustCompile("(?s)```go\n(.*?)```")
	imported = regexp.MustCompile(`(?m)^"\S+"$`) // a file imports others in between
	omitted  = regexp.MustCompile(`\n(…\n)+`)
)

// TestSnippetsAreCompiled finds every line of Go in README and docs in a test, where it is
// compiled. A line with … stands for what a reader does not need; the lines between two of
// them are together in the test, too.
func TestSnippetsAreCompiled(t *testing.T) {
	atRoot(t)
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
