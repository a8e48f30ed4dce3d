package main

import (
	"bytes"
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

// cell is what a behaviour on a server shows.
type cell string

const (
	both    cell = "both"
	neither cell = "neither"
	better  cell = "Quorate"
	worse   cell = "official"
	none    cell = "" // the server does not offer the setup
)

func (c column) cell(i int) cell {
	theirs, ours := c.results[servers.Official][i], c.results[servers.Quorate][i]
	switch {
	case ours == nil:
		return none
	case ours.wrong == "" && theirs.wrong == "":
		return both
	case ours.wrong == "":
		return better
	case theirs.wrong == "":
		return worse
	default:
		return neither
	}
}

func (t table) worse() int { return t.count(worse) }

func (t table) count(kinds ...cell) int {
	n := 0
	for _, c := range t.columns {
		for i := range t.rows {
			for _, k := range kinds {
				if c.cell(i) == k {
					n++
				}
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
			k := c.cell(i)
			if k == none || !all && k != better && k != worse {
				continue
			}
			row := []string{b.String(), c.server.Name, string(k)}
			for _, client := range servers.Clients {
				if r := c.results[client][i]; r.wrong != "" {
					row = append(row, fmt.Sprintf("%s: %s", client, short(r.wrong)))
				} else if r.again {
					row = append(row, fmt.Sprintf("%s: when repeated", client))
				}
			}
			_, _ = w.Write([]byte(strings.Join(row, "\t") + "\n"))
		}
	}
	_ = w.Flush()
	return text.String() + t.summary()
}

// short cuts a text to what fits a line.
func short(s string) string {
	const limit = 200
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}

func (t table) summary() string {
	return fmt.Sprintf("%d cells: both %d, only Quorate %d, only the official client %d, neither %d. Official client %d, Quorate %d.",
		t.count(both, better, worse, neither), t.count(both), t.count(better), t.count(worse), t.count(neither),
		t.count(both, worse), t.count(both, better))
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
var marks = map[cell]string{both: "✓", neither: "–", better: "**Quorate**", worse: "official", none: ""}

func (t table) markdown(now time.Time) string {
	var page bytes.Buffer
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
			fmt.Fprintf(&page, " %s |", marks[c.cell(i)])
		}
		page.WriteString("\n")
	}
	return page.String()
}
