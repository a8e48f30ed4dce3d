// Command pagecheck opens the page of a comparison in a real browser, without a window,
// and checks that it is what it should be: that its script runs, that every timeline is
// drawn, inside its box and on the same axis as the others, that the keyboard and the
// legend work, that texts can be read in light and dark, that a narrow window is enough,
// that no text of the document is run, and that nothing is loaded.
//
// Usage:
//
//	pagecheck [-page FILE] [-screenshot FILE.png] [-width 1200] [-height 1500]
//
// Without -page it makes a page of a sample that has one of everything. The browser is
// Chromium or Chrome: $BROWSER, or one of the usual names on the path. Without one the
// check fails. Exit status 1 means that it failed, 2 bad usage.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/lab/report/comparison"
	"github.com/quorate/quorate/lab/report/comparison/sample"
)

// timeout bounds one visit of the browser, which takes a second or two.
const timeout = time.Minute

func main() {
	page := flag.String("page", "", "the `file` to check; default a page of the built-in sample")
	screenshot := flag.String("screenshot", "", "also write a picture of the page to this `file`")
	width := flag.Int("width", 1200, "width of the picture")
	height := flag.Int("height", 1500, "height of the picture")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	err := run(context.Background(), *page)
	if err == nil && *screenshot != "" {
		err = picture(context.Background(), *page, *screenshot, *width, *height)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pagecheck:", err)
		os.Exit(1)
	}
}

// run visits the page in every way that people do.
func run(ctx context.Context, page string) error {
	b, err := findBrowser()
	if err != nil {
		return err
	}
	content, err := read(page)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range []visit{
		{"wide and light", 1280, false},
		{"wide and dark", 1280, true},
		{"narrow and light", 500, false},
	} {
		found, err := b.probe(ctx, content, v)
		if err == nil {
			err = found.evaluate(v)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.name, err))
			continue
		}
		fmt.Printf("%s: %d timelines, nothing wrong\n", v.name, found.Charts)
	}
	return errors.Join(errs...)
}

// read returns a page, that of the sample for no name.
func read(page string) ([]byte, error) {
	if page != "" {
		return os.ReadFile(page)
	}
	var b bytes.Buffer
	err := comparison.HTML(&b, sample.Document())
	return b.Bytes(), err
}

// picture writes a picture of the page.
func picture(ctx context.Context, page, file string, width, height int) error {
	b, err := findBrowser()
	if err != nil {
		return err
	}
	content, err := read(page)
	if err != nil {
		return err
	}
	file, err = filepath.Abs(file)
	if err != nil {
		return err
	}
	_, err = b.open(ctx, content, "--screenshot="+file, fmt.Sprintf("--window-size=%d,%d", width, height), "--hide-scrollbars")
	return err
}
