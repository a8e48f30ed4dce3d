// Command toolkit runs scenarios over channels of this library and of plain gRPC, and prints what callers see as a Markdown
// table. Backends and callers are in one process, a new one for each scenario, policy and round; calls go over TCP.
//
//	go run ./lab/bench/toolkit                                    all, once; six minutes
//	go run ./lab/bench/toolkit -rounds 3                          medians of three rounds
//	go run ./lab/bench/toolkit -scenario 'frozen|flap'            some scenarios
//	go run ./lab/bench/toolkit -policy 'quorate|^round_robin$'    some policies
//
// The 2,000 backends need 6,500 open files (ulimit -n). Exit status: 0 when all was measured, whatever it showed; 1 when
// something could not be; 2 for bad usage.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/quorate/quorate/lab/internal/stats"
)

// allSlots bounds what runs at the same time: each scenario takes some of the slots.
const allSlots = 12

func main() {
	var onlyScenario, onlyPolicy regexp.Regexp
	all := regexp.MustCompile("")
	flag.TextVar(&onlyScenario, "scenario", all, "run only the scenarios whose name matches the `regexp`")
	flag.TextVar(&onlyPolicy, "policy", all, "run only the policies whose name matches the `regexp`")
	rounds := flag.Int("rounds", 1, "how often all is measured; figures are medians")
	child := flag.Bool("child", false, "measure in this process; the program starts itself with it")
	flag.Parse()
	scenarios = slices.DeleteFunc(scenarios, func(s scenario) bool { return !onlyScenario.MatchString(s.name) })
	policies = slices.DeleteFunc(policies, func(p policy) bool { return !onlyPolicy.MatchString(p.name) })
	if len(scenarios) == 0 || len(policies) == 0 || *rounds < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "toolkit: -scenario and -policy must match a name, -rounds be at least 1, and nothing follow")
		os.Exit(2)
	}
	if *child {
		figures, err := measure(scenarios[0], policies[0])
		exitOn(err)
		exitOn(json.NewEncoder(os.Stdout).Encode(figures))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	rows, err := measureAll(ctx, *rounds, inChild)
	exitOn(err)
	fmt.Print(table(rows))
}

func exitOn(err error) {
	if err != nil {
		log.Fatal("toolkit: ", err)
	}
}

// inChild measures a scenario in a process of its own.
func inChild(ctx context.Context, s scenario, p policy) (figures []figure, err error) {
	cmd := exec.CommandContext(ctx, os.Args[0], "-child", "-scenario", "^"+s.name+"$", "-policy", "^"+p.name+"$")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &figures)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", s.name, p.name, err)
	}
	return figures, nil
}

// row is one figure of a scenario, with its median for each policy.
type row struct {
	Scenario, Figure string
	Medians          map[string]float64
}

// measureAll measures each scenario with each policy. Those that need few slots run at the same time.
func measureAll(ctx context.Context, rounds int, measure func(context.Context, scenario, policy) ([]figure, error)) ([]row, error) {
	slots := semaphore.NewWeighted(allSlots)
	group, ctx := errgroup.WithContext(ctx)
	cells := make([][]figure, rounds*len(scenarios)*len(policies))
	at := func(round, s, p int) []figure { return cells[(round*len(scenarios)+s)*len(policies)+p] }
	for i := range cells {
		s, p := scenarios[i/len(policies)%len(scenarios)], policies[i%len(policies)]
		if err := slots.Acquire(ctx, s.slots); err != nil {
			group.Go(func() error { return err })
			break
		}
		group.Go(func() (err error) {
			defer slots.Release(s.slots)
			cells[i], err = measure(ctx, s, p)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var rows []row
	for s := range scenarios {
		for f, figure := range at(0, s, 0) {
			r := row{scenarios[s].name, figure.What, map[string]float64{}}
			for p := range policies {
				values := make([]float64, rounds)
				for round := range values {
					values[round] = at(round, s, p)[f].Value
				}
				r.Medians[policies[p].name] = stats.Of(values).Median
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// table returns the rows as a Markdown table.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| scenario | figure |")
	for _, p := range policies {
		b.WriteString(" `" + p.name + "` |")
	}
	b.WriteString("\n|---|---" + strings.Repeat("|---", len(policies)) + "|\n")
	for i, r := range rows {
		name := r.Scenario
		if i > 0 && name == rows[i-1].Scenario {
			name = ""
		}
		fmt.Fprintf(&b, "| %s | %s |", name, r.Figure)
		for _, p := range policies {
			b.WriteString(" " + stats.Text(r.Medians[p.name]) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}
