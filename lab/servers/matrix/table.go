package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quorate/quorate/lab/behaviours"
	"github.com/quorate/quorate/lab/servers"
)

// table is the matrix.
type table struct {
	rows    []behaviours.Behaviour
	columns []column
}

// column is a server with a cell for each row, nil where the server does not offer the setup.
type column struct {
	server servers.Server
	rows   []behaviours.Behaviour
	cells  []*cell
}

// cell is the failure of a behaviour, "" for none.
type cell struct{ official, quorate string }

// kind says which clients showed a behaviour.
type kind string

const (
	both    kind = "both"
	neither kind = "neither"
	better  kind = "Quorate"
	worse   kind = "official"
	none    kind = ""
)

func (c *cell) kind() kind {
	switch {
	case c == nil:
		return none
	case c.official == "" && c.quorate == "":
		return both
	case c.quorate == "":
		return better
	case c.official == "":
		return worse
	default:
		return neither
	}
}

func (t table) count(of kind) (n int) {
	for _, c := range t.columns {
		for _, cell := range c.cells {
			if cell.kind() == of {
				n++
			}
		}
	}
	return n
}

// text returns the cells that differ, or all, with what was wrong.
func (t table) text(all bool) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for i, b := range t.rows {
		for _, c := range t.columns {
			k := c.cells[i].kind()
			if k != better && k != worse && (!all || k == none) {
				continue
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s", b, c.server.Name, k)
			for i, wrong := range []string{c.cells[i].official, c.cells[i].quorate} {
				if wrong != "" {
					_, _ = fmt.Fprintf(w, "\t%s: %.200s", servers.Clients[i], wrong)
				}
			}
			_, _ = fmt.Fprintln(w)
		}
	}
	_ = w.Flush()
	return text.String() + t.summary()
}

func (t table) summary() string {
	both, better, worse, neither := t.count(both), t.count(better), t.count(worse), t.count(neither)
	return fmt.Sprintf("%d cells: both %d, only Quorate %d, only the official client %d, neither %d. Official client %d, Quorate %d.",
		both+better+worse+neither, both, better, worse, neither, both+worse, both+better)
}

// The marks between which a page holds the table.
const (
	beginMark = "<!-- begin: make servers -->\n"
	endMark   = "<!-- end: make servers -->\n"
)

// writePage puts the table between the marks of a page.
func (t table) writePage(path string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, found := strings.Cut(string(page), beginMark)
	_, tail, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		return fmt.Errorf("%s lacks the lines %q and %q", path, beginMark, endMark)
	}
	return os.WriteFile(path, []byte(head+beginMark+t.markdown(time.Now())+endMark+tail), 0o644)
}

// marks are how the page shows cells.
var marks = map[kind]string{both: "✓", neither: "–", better: "**Quorate**", worse: "official", none: ""}

func (t table) markdown(now time.Time) string {
	var page strings.Builder
	fmt.Fprintf(&page, "Measured on %s with `make servers`. %s\n\n|  |", now.Format(time.DateOnly), t.summary())
	for _, c := range t.columns {
		fmt.Fprintf(&page, " %s |", c.server.Name)
	}
	page.WriteString("\n|---|" + strings.Repeat(":-:|", len(t.columns)) + "\n")
	area := ""
	for i, b := range t.rows {
		if b.Area != area {
			area = b.Area
			fmt.Fprintf(&page, "| *%s* |%s\n", area, strings.Repeat(" |", len(t.columns)))
		}
		fmt.Fprintf(&page, "| %s |", b.Name)
		for _, c := range t.columns {
			fmt.Fprintf(&page, " %s |", marks[c.cells[i].kind()])
		}
		page.WriteString("\n")
	}
	return page.String()
}
