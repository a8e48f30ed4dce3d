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
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/lab/behaviours"
	"github.com/quorate/quorate/lab/servers"
	"github.com/quorate/quorate/lab/servers/site"
)

var (
	onlyServer, onlyRow regexp.Regexp

	short = flag.Bool("short", false, "only the servers that CI runs")
	all   = flag.Bool("all", false, "print all cells, not only those that differ")
	page  = flag.String("page", "", "write the table into this `file`, between its marks")
)

// parallel is how many behaviours run at the same time. Most wait most of the time.
var parallel = 5 * runtime.NumCPU()

// grace is how long a behaviour may take beyond its limit before its process is killed.
const grace = 5 * time.Second

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
	t, err := measure(ctx)
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

// measure runs the behaviours that have an area on all servers. The table is valid, as far as it goes, even with an error.
func measure(ctx context.Context) (t table, err error) {
	p, err := servers.BuildProgram(ctx, "./behaviours/program", servers.Clients)
	if err != nil {
		return t, err
	}
	defer p.Remove()
	t.rows = slices.DeleteFunc(slices.Clone(behaviours.All), func(b behaviours.Behaviour) bool {
		return b.Area == "" || !onlyRow.MatchString(b.String())
	})
	for _, s := range servers.All {
		if *short && !s.Short || !onlyServer.MatchString(s.Name) {
			continue
		}
		path, err := s.Build(ctx)
		if err != nil {
			return t, err
		}
		begin := time.Now()
		c := column{s, t.rows, make([]*cell, len(t.rows))}
		if err := c.measure(ctx, p, path); err != nil {
			return t, err
		}
		t.columns = append(t.columns, c)
		fmt.Printf("%s, in %v: %s\n", s.Name, time.Since(begin).Round(time.Second), table{t.rows, []column{c}}.summary())
	}
	return t, nil
}

// job is some behaviours that a client shows one after the other.
type job struct {
	client servers.Client
	rows   []int
}

// measure runs behaviours on a server with both clients, several at the same time. What only one client failed is run again,
// and alone if that was Quorate: a machine that is busy is no difference. The short form repeats only what decides its outcome.
func (c column) measure(ctx context.Context, p *servers.Program, path string) error {
	var jobs []job
	shared := [2]job{{client: servers.Official}, {client: servers.Quorate}}
	for i, b := range c.rows {
		switch {
		case !c.server.Offers(b.Setup):
			continue
		case b.Setup == site.Plain:
			shared[0].rows = append(shared[0].rows, i)
			shared[1].rows = append(shared[1].rows, i)
		default:
			jobs = append(jobs, job{servers.Official, []int{i}}, job{servers.Quorate, []int{i}})
		}
		c.cells[i] = new(cell)
	}
	run := func(limit int, jobs []job) error {
		work, ctx := errgroup.WithContext(ctx)
		work.SetLimit(limit)
		for _, j := range jobs {
			work.Go(func() error { return c.run(ctx, p, path, j) })
		}
		return work.Wait()
	}
	if err := run(parallel, append(shared[:], jobs...)); err != nil {
		return err
	}
	var theirs, ours []job
	for i, cell := range c.cells {
		switch kind := cell.kind(); {
		case kind == worse:
			ours = append(ours, job{servers.Quorate, []int{i}})
		case kind == better && !*short:
			theirs = append(theirs, job{servers.Official, []int{i}})
		}
	}
	return errors.Join(run(parallel, theirs), run(1, ours))
}

// run runs a job. A server that was acted upon or on which something went wrong is not used again.
func (c column) run(ctx context.Context, p *servers.Program, path string, j job) error {
	var server *servers.Running
	defer func() {
		if server != nil {
			_ = server.Close()
		}
	}()
	for _, i := range j.rows {
		if server == nil {
			var err error
			if server, err = c.server.Start(ctx, path, c.rows[i].Setup); err != nil {
				return err
			}
		}
		wrong := show(ctx, p, j.client, server, c.rows[i])
		if wrong != "" {
			_ = server.Close()
			server = nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		*c.cells[i].of(j.client) = wrong
	}
	return nil
}

// show runs the program for a behaviour and returns what was wrong.
func show(ctx context.Context, p *servers.Program, client servers.Client, server *servers.Running, b behaviours.Behaviour) string {
	ctx, cancel := context.WithTimeoutCause(ctx, b.Limit+grace, fmt.Errorf("nothing within %v", b.Limit+grace))
	defer cancel()
	outcome, err := p.Behave(ctx, client, server.Site(), b.String())
	if err == nil {
		return outcome.Error
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
