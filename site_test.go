package quorate_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	siteLink     = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	siteResource = regexp.MustCompile(`<(?:script|link|img|iframe)\b[^>]*(?:src|href)="?(?:https?:)?//`)
)

// TestSiteNeedsNoNetwork checks the site that make site has built: its links lead to its own files and headings, or to the web,
// and it loads nothing from there.
func TestSiteNeedsNoNetwork(t *testing.T) {
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
