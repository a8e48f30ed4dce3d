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
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"github.com/quorate/quorate/lab/servers"
)

// options are the flags.
type options struct {
	short, all  bool
	server, run *regexp.Regexp
	page        string
	parallel    int
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	worse, err := o.play(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
	if worse > 0 {
		fmt.Printf("Quorate is worse in %d cells.\n", worse)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("matrix", flag.ContinueOnError)
	flags.BoolVar(&o.short, "short", false, "only the servers that CI runs")
	flags.BoolVar(&o.all, "all", false, "print all cells, not only those that differ")
	server := flags.String("server", "", "only servers whose names match this `expression`")
	run := flags.String("run", "", "only behaviours whose \"area: name\" matches this `expression`")
	flags.StringVar(&o.page, "page", "", "write the table into this `file`, between its marks")
	flags.IntVar(&o.parallel, "parallel", 5*runtime.NumCPU(), "how many behaviours run at the same time; most wait most of the time")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	filtered := o.short || *server != "" || *run != ""
	if o.page != "" && filtered {
		return o, fmt.Errorf("-page shows all servers and behaviours: leave out -short, -server and -run")
	}
	var err error
	if o.server, err = regexp.Compile(*server); err != nil {
		return o, err
	}
	if o.run, err = regexp.Compile(*run); err != nil {
		return o, err
	}
	return o, nil
}

// play runs the matrix and returns in how many cells Quorate is worse.
func (o options) play(ctx context.Context) (int, error) {
	begin := time.Now()
	p, err := servers.BuildProgram(ctx, "./behaviours/program", servers.Clients)
	if err != nil {
		return 0, err
	}
	defer p.Remove()
	t := table{rows: rows(o.run)}
	fmt.Printf("%d behaviours; both programs built after %v\n", len(t.rows), time.Since(begin).Round(time.Second))
	for _, s := range servers.All {
		if o.short && !s.Short || !o.server.MatchString(s.Name) {
			continue
		}
		begin := time.Now()
		path, err := s.Build(ctx)
		if err != nil {
			return 0, err
		}
		built := time.Since(begin).Round(time.Second)
		c, err := newColumn(ctx, p, s, path, t.rows, o)
		if err != nil {
			fmt.Println(t.text(o.all))
			return 0, err
		}
		t.columns = append(t.columns, c)
		fmt.Printf("%-18s built in %v, %s in %v\n", s.Name, built, c, (time.Since(begin) - built).Round(time.Second))
	}
	fmt.Println(t.text(o.all))
	if o.page != "" {
		if err := t.writePage(o.page); err != nil {
			return 0, err
		}
	}
	return t.worse(), nil
}
