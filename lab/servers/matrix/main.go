// Command matrix runs the rows of package behaviours on every server that users of the client have, with the official client
// and with Quorate, and prints the cells in which the two differ.
//
//	go run ./lab/servers/matrix            all servers
//	go run ./lab/servers/matrix -short     those that CI runs
//	go run ./lab/servers/matrix -all       prints all cells
//	go run ./lab/servers/matrix -page docs/servers.md    renews the table of a page
//
// It ends with status 1 if Quorate is worse in a cell.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab/behaviours"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers"
	"github.com/quorate/quorate/lab/servers/site"
)

var (
	onlyServer, onlyRow regexp.Regexp

	short = flag.Bool("short", false, "only the servers that CI runs")
	all   = flag.Bool("all", false, "print all cells, not only those that differ")
	page  = flag.String("page", "", "write the table into this `file`, between its marks")
)

// parallel is how many behaviours run at the same time, with both clients. Most wait most of the time.
var parallel = 3 * runtime.NumCPU()

// limit is how long a behaviour may take, and grace how long beyond that before its process is killed.
const limit, grace = 90 * time.Second, 5 * time.Second

func main() {
	log.SetFlags(0)
	log.SetPrefix("matrix: ")
	every := regexp.MustCompile("")
	flag.TextVar(&onlyServer, "server", every, "only servers whose names match this `expression`")
	flag.TextVar(&onlyRow, "run", every, "only behaviours whose \"area: name\" matches this `expression`")
	flag.Parse()
	if *page != "" && (*short || onlyServer.String() != "" || onlyRow.String() != "") {
		log.Fatal("-page shows all servers and behaviours: leave out -short, -server and -run")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	var t table
	err := fatal.Catch(func() { t.measure(ctx) })
	stop()
	fmt.Println(t.text(*all))
	if err == nil && *page != "" {
		err = t.writePage(*page)
	}
	if err != nil {
		log.Fatal(err)
	}
	if worse := t.count(worse); worse > 0 {
		log.Fatalf("Quorate is worse in %d cells", worse)
	}
}

// measure runs the behaviours that have an area on all servers. The table is valid, as far as it goes, even with an error, which
// ends it, see package fatal.
func (t *table) measure(ctx context.Context) {
	p := fatal.OK(servers.BuildProgram(ctx, "./behaviours/program", servers.Clients))
	t.rows = slices.DeleteFunc(slices.Clone(behaviours.All), func(b behaviours.Behaviour) bool {
		return b.Area == "" || !onlyRow.MatchString(b.String())
	})
	for _, s := range servers.All {
		if *short && !s.Short || !onlyServer.MatchString(s.Name) {
			continue
		}
		path := fatal.OK(s.Build(ctx))
		begin := time.Now()
		c := column{s, t.rows, make([]*cell, len(t.rows))}
		c.measure(ctx, p, path)
		t.columns = append(t.columns, c)
		fmt.Printf("%s, in %v: %s\n", s.Name, time.Since(begin).Round(time.Second), table{t.rows, []column{c}}.summary())
	}
}

// measure runs behaviours on a server with both clients, several at the same time. A behaviour that only one client failed is
// run again, two at a time, because a busy machine is no difference between them; the second try counts. The short form repeats
// only what decides its outcome.
func (c column) measure(ctx context.Context, p servers.Program, path string) {
	shared := make(map[site.Setup][]int) // the rows that follow each other on the same servers
	var own [][]int
	for i, b := range c.rows {
		switch {
		case !c.server.Offers(b.Setup):
			continue
		case b.Setup == site.Plain || b.Setup == site.Single:
			shared[b.Setup] = append(shared[b.Setup], i)
		default:
			own = append(own, []int{i})
		}
	}
	c.runAll(ctx, p, path, parallel, slices.AppendSeq(own, maps.Values(shared)))
	var again [][]int
	for i, cell := range c.cells {
		if kind := cell.kind(); kind == worse || kind == better && !*short {
			again = append(again, []int{i})
		}
	}
	c.runAll(ctx, p, path, 2, again)
}

func (c column) runAll(ctx context.Context, p servers.Program, path string, atOnce int, jobs [][]int) {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for _, rows := range jobs {
		work.Go(func() error { return fatal.Catch(func() { c.run(ctx, p, path, rows) }) })
	}
	fatal.If(work.Wait())
}

// run runs rows with both clients, each on a server of its own: the two have the same history. Servers on which something
// went wrong are not used again.
func (c column) run(ctx context.Context, p servers.Program, path string, rows []int) {
	var pair []*servers.Running
	end := func() {
		for _, server := range pair {
			_ = server.Close()
		}
		pair = nil
	}
	defer func() { end() }()
	for _, i := range rows {
		for len(pair) < len(servers.Clients) {
			pair = append(pair, fatal.OK(c.server.Start(ctx, path, c.rows[i].Setup)))
		}
		shown := c.show(ctx, p, pair, c.rows[i])
		fatal.If(context.Cause(ctx))
		c.cells[i] = &shown
		if shown.kind() != both {
			end()
		}
	}
}

// show runs a behaviour with both clients at the same time. If both complete, their transcripts must be equal. If the server
// does not support a step, neither client shows the behaviour.
func (c column) show(ctx context.Context, p servers.Program, pair []*servers.Running, b behaviours.Behaviour) cell {
	var outcomes [2]site.Outcome
	var work sync.WaitGroup
	for i, client := range servers.Clients {
		work.Go(func() { outcomes[i] = play(ctx, p, client, pair[i].Site(), b) })
	}
	work.Wait()
	if shown := (cell{outcomes[0].Error, outcomes[1].Error}); shown.kind() != both {
		return shown
	}
	differing, _ := transcript.Compare(c.server.Name, behaviours.Deliberate, outcomes[0].Entries, outcomes[1].Entries)
	if len(differing) > 0 {
		return cell{quorate: oneLine(strings.Join(differing, "; "))}
	}
	lacking := lacking(outcomes[0].Entries)
	return cell{lacking, lacking}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

var unsupported = regexp.MustCompile("not implemented|not supported|unsupported")

// lacking returns the first step of which kine says that it has no such thing, "" if there is none.
func lacking(entries []transcript.Entry) string {
	if i := slices.IndexFunc(entries, func(e transcript.Entry) bool { return unsupported.MatchString(e.Error) }); i >= 0 {
		return oneLine(entries[i].Step + ": " + entries[i].Error)
	}
	return ""
}

// play runs the program for a behaviour.
func play(ctx context.Context, p servers.Program, client servers.Client, at site.Site, b behaviours.Behaviour) site.Outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, limit+grace, fmt.Errorf("nothing within %v", limit+grace))
	defer cancel()
	at.Limit = limit
	outcome, err := p.Behave(ctx, client, at, b.String())
	if err != nil {
		outcome.Error, _, _ = strings.Cut(err.Error(), "\n")
	}
	outcome.Error = oneLine(outcome.Error)
	return outcome
}

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
