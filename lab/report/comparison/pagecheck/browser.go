package main

import (
	"bytes"
	"context"
	_ "embed" // the probe
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
)

//go:embed probe.js
var probeText string

// browser is the path of a browser's program.
type browser string

// findBrowser returns the browser to use.
func findBrowser() (browser, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
	if chosen := os.Getenv("BROWSER"); chosen != "" {
		names = []string{chosen}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return browser(path), nil
		}
	}
	return "", fmt.Errorf("no browser found, looked for %s: install chromium, or set BROWSER to Chromium or Chrome",
		strings.Join(names, ", "))
}

// visit is one way to look at the page.
type visit struct {
	name  string
	width int
	dark  bool
}

// finding is what the probe writes into the page.
type finding struct {
	Charts int
	Dark   bool
	Width  int
	Wrong  []string
}

// evaluate returns what is wrong with a visit.
func (f finding) evaluate(v visit) error {
	errs := make([]error, 0, len(f.Wrong)+1)
	for _, w := range f.Wrong {
		errs = append(errs, errors.New(w))
	}
	if f.Dark != v.dark || f.Width > v.width {
		errs = append(errs, fmt.Errorf("the browser did not do as it was told: dark is %v, and the window %d wide", f.Dark, f.Width))
	}
	return errors.Join(errs...)
}

// probe opens the page with the probe in it, and returns what that found.
func (b browser) probe(ctx context.Context, page []byte, v visit) (finding, error) {
	end := bytes.LastIndex(page, []byte("</body>"))
	if end < 0 {
		return finding{}, errors.New("the page has no end of its body")
	}
	probed := bytes.Join([][]byte{page[:end], []byte("<script>" + probeText + "</script>"), page[end:]}, nil)
	args := []string{"--dump-dom", fmt.Sprintf("--window-size=%d,900", v.width)}
	if v.dark {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	dom, err := b.open(ctx, probed, args...)
	if err != nil {
		return finding{}, err
	}
	return findingIn(dom)
}

// findingIn returns what the probe wrote into a document.
func findingIn(dom []byte) (finding, error) {
	root, err := html.Parse(bytes.NewReader(dom))
	if err != nil {
		return finding{}, err
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != "html" {
			continue
		}
		for _, a := range n.Attr {
			if a.Key == "data-probe" {
				var f finding
				err := json.Unmarshal([]byte(a.Val), &f)
				return f, err
			}
		}
		return finding{}, fmt.Errorf("the probe did not come to its end; the page says %v", n.Attr)
	}
	return finding{}, errors.New("the browser returned no document")
}

// open opens a page from a file, as people do, with no network, and returns what the
// browser prints.
func (b browser) open(ctx context.Context, page []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "pagecheck-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it lies among temporary files
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		return nil, err
	}
	all := append([]string{
		"--headless", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-background-networking",
		"--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + filepath.Join(dir, "profile"),
	}, args...)
	if os.Geteuid() == 0 {
		all = append(all, "--no-sandbox") // Chromium refuses to run as root with it
	}
	cmd := exec.CommandContext(ctx, string(b), append(all, (&url.URL{Scheme: "file", Path: file}).String())...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", b, err, said.String())
	}
	return out, nil
}
