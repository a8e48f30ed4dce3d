package comparison_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/lab/report/comparison"
	"github.com/quorate/quorate/lab/report/comparison/sample"
)

// pageOf returns the page of a document as a browser parses it.
func pageOf(t *testing.T, d comparison.Document) *html.Node {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, comparison.HTML(&b, d))
	root, err := html.Parse(&b)
	require.NoError(t, err)
	return root
}

// elements returns the elements of a name, all of them for "".
func elements(root *html.Node, name string) (out []*html.Node) {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && (name == "" || n.Data == name) {
			out = append(out, n)
		}
	}
	return out
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// script returns the text of the script with an id.
func script(t *testing.T, root *html.Node, id string) string {
	t.Helper()
	for _, s := range elements(root, "script") {
		if attribute(s, "id") == id {
			return text(s)
		}
	}
	t.Fatalf("the page has no script %q", id)
	return ""
}

func TestPageCarriesItsDocument(t *testing.T) {
	want := sample.Document()
	var got comparison.Document
	require.NoError(t, json.Unmarshal([]byte(script(t, pageOf(t, want), "data")), &got))
	for i := range want.Clients {
		want.Clients[i].Report = json.RawMessage("null") // the page does without
	}
	assert.Empty(t, cmp.Diff(want, got))
}

func TestPageNeedsNothingElse(t *testing.T) {
	root := pageOf(t, sample.Document())
	for _, name := range []string{"link", "img", "iframe", "object", "embed", "video", "audio", "source", "form", "base"} {
		assert.Empty(t, elements(root, name), name)
	}
	for _, n := range elements(root, "") {
		for _, a := range n.Attr {
			switch a.Key {
			case "src", "srcset", "action", "poster", "data", "ping", "background", "formaction":
				assert.Fail(t, "a reference", "%s %s=%q", n.Data, a.Key, a.Val)
			case "href":
				assert.True(t, strings.HasPrefix(a.Val, "#"), "%s href=%q", n.Data, a.Val)
			}
			assert.False(t, strings.HasPrefix(a.Key, "on"), "an event handler: %s %s=%q", n.Data, a.Key, a.Val)
		}
	}
	code := script(t, root, "")
	style := text(elements(root, "style")[0])
	for _, reference := range []string{"http:", "https:", "//www", "url(", "@import", "fetch(", "XMLHttpRequest", "WebSocket", "import("} {
		assert.NotContains(t, code, reference)
		assert.NotContains(t, style, reference)
	}
	policies := 0
	for _, m := range elements(root, "meta") {
		if attribute(m, "http-equiv") == "Content-Security-Policy" {
			policies++
			assert.True(t, strings.HasPrefix(attribute(m, "content"), "default-src 'none';"), "the browser is told to load nothing")
		}
	}
	assert.Equal(t, 1, policies)
}

func TestPageEscapesWhatComesFromOutside(t *testing.T) {
	d := sample.Document()
	d.Faults[0].Name, d.Faults[0].Summary = sample.Hostile, sample.Hostile
	d.Clients[0].Name, d.Clients[0].Description = sample.Hostile, sample.Hostile
	d.Clients[1].Runs[1].Moments[1].Leader = sample.Hostile
	root := pageOf(t, d)
	assert.Len(t, elements(root, "script"), 2, "the document and the page's own script")
	assert.Empty(t, elements(root, "img"))
	seen := strings.Count(text(elements(root, "main")[0]), sample.Hostile)
	assert.GreaterOrEqual(t, seen, 10, "it is there, as text")
	for n := range root.Descendants() {
		assert.NotEqual(t, html.CommentNode, n.Type, "it began a comment")
	}
}

func TestPageReadsWithoutItsScript(t *testing.T) {
	root := pageOf(t, sample.Document())
	ids := map[string]int{}
	for _, n := range elements(root, "") {
		if id := attribute(n, "id"); id != "" {
			ids[id]++
		}
	}
	for id, n := range ids {
		assert.Equal(t, 1, n, "elements with the id %s", id)
	}
	for _, n := range elements(root, "") {
		if target, ok := strings.CutPrefix(attribute(n, "href"), "#"); ok {
			assert.Contains(t, ids, target)
		}
		if label := attribute(n, "aria-labelledby"); label != "" {
			assert.Contains(t, ids, label)
		}
	}
	charts := 0
	for _, n := range elements(root, "div") {
		if attribute(n, "class") != "chart" {
			continue
		}
		charts++
		assert.Equal(t, "img", attribute(n, "role"))
		assert.Equal(t, "0", attribute(n, "tabindex"), "it can be read with the keyboard")
		assert.Contains(t, attribute(n, "aria-label"), "longest gap")
	}
	assert.Equal(t, 5, charts, "three clients met the first fault, two the second")
	main := text(elements(root, "main")[0])
	for _, want := range []string{"stop", "leader-kill", "Official client, tuned", "did not meet this fault", "Broken promises: 12", "m3 leads"} {
		assert.Contains(t, main, want)
	}
	rows := elements(elements(root, "table")[0], "tr")
	require.Len(t, rows, 6)
	cells := len(elements(rows[0], "th"))
	assert.Equal(t, 11, cells)
	for i, row := range rows[1:] {
		n := len(elements(row, "th")) + len(elements(row, "td"))
		if i != 0 && i != 3 { // the fault's name stands beside the rows of all its clients
			n++
		}
		assert.Equal(t, cells, n, "row %d", i)
	}
}

func TestPageOfNothing(t *testing.T) {
	root := pageOf(t, comparison.Document{})
	assert.Empty(t, elements(root, "article"))
	var got comparison.Document
	require.NoError(t, json.Unmarshal([]byte(script(t, root, "data")), &got))
}

// TestBothPalettesAreComplete compares the colours for light and dark.
func TestBothPalettesAreComplete(t *testing.T) {
	style := text(elements(pageOf(t, comparison.Document{}), "style")[0])
	light, rest, found := strings.Cut(style, "@media (prefers-color-scheme: dark)")
	require.True(t, found)
	dark, _, found := strings.Cut(rest, "\n}\n")
	require.True(t, found)
	variable := regexp.MustCompile(`(--[a-z-]+):`)
	names := func(css string) []string {
		set := map[string]bool{}
		for _, m := range variable.FindAllStringSubmatch(css, -1) {
			set[m[1]] = true
		}
		return slices.Sorted(maps.Keys(set))
	}
	require.NotEmpty(t, names(light))
	assert.Equal(t, names(light), names(dark))
	for _, use := range regexp.MustCompile(`var\((--[a-z-]+)\)`).FindAllStringSubmatch(style, -1) {
		if use[1] != "--columns" && use[1] != "--part" {
			assert.Contains(t, names(light), use[1])
		}
	}
}

// TestEveryStateHasAColour compares the colours with the states of Quorate's endpoints.
// One of which nothing is known is grey, as is a state that nobody knows.
func TestEveryStateHasAColour(t *testing.T) {
	style := text(elements(pageOf(t, comparison.Document{}), "style")[0])
	for s := health.Unknown + 1; !strings.HasPrefix(s.String(), "State("); s++ {
		assert.Contains(t, style, "--state-"+strings.ReplaceAll(s.String(), " ", "-")+":")
	}
}
