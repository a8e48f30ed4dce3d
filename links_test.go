package quorate_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
)

// TestLinksLeadSomewhere checks that every relative link of a page leads to a file or
// folder, and its anchor to a heading.
func TestLinksLeadSomewhere(t *testing.T) {
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

// pages returns the text of all Markdown of the repository without its blocks of code.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			var text []byte
			text, err = os.ReadFile(path)
			all[path] = codeBlock.ReplaceAllString(string(text), "")
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
