package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/lab/behaviours"
	"github.com/quorate/quorate/lab/servers"
	"github.com/quorate/quorate/lab/servers/site"
)

// grace is how long a behaviour may take beyond its limit before its process is killed.
const grace = 5 * time.Second

// rows returns the behaviours with an area whose area and name match.
func rows(match *regexp.Regexp) []behaviours.Behaviour {
	var chosen []behaviours.Behaviour
	for _, b := range behaviours.All {
		if b.Area != "" && match.MatchString(b.String()) {
			chosen = append(chosen, b)
		}
	}
	return chosen
}

// result is what became of a behaviour: what was wrong, or "".
type result struct {
	wrong string
	again bool // it was wrong once, and not when it was repeated alone
}

// column is a server with the results of each client, nil where the server does not offer the setup.
type column struct {
	server  servers.Server
	results map[servers.Client][]*result
}

func (c column) String() string {
	parts := make([]string, 0, len(servers.Clients))
	for _, client := range servers.Clients {
		good, all := 0, 0
		for _, r := range c.results[client] {
			if r != nil {
				all++
			}
			if r != nil && r.wrong == "" {
				good++
			}
		}
		parts = append(parts, fmt.Sprintf("%s %d of %d", client, good, all))
	}
	return strings.Join(parts, ", ")
}

// job is some behaviours that one client shows one after the other.
type job struct {
	client     servers.Client
	behaviours []int
}

// newColumn runs behaviours on a server, several at the same time.
func newColumn(ctx context.Context, p *servers.Program, s servers.Server, path string, rows []behaviours.Behaviour, o options) (column, error) {
	c := column{server: s, results: make(map[servers.Client][]*result)}
	var jobs []job
	for _, client := range servers.Clients {
		c.results[client] = make([]*result, len(rows))
		shared := job{client: client}
		for i, b := range rows {
			switch {
			case !s.Offers(b.Setup):
			case b.Setup == site.Plain:
				shared.behaviours = append(shared.behaviours, i)
			default:
				jobs = append(jobs, job{client, []int{i}})
			}
		}
		jobs = append([]job{shared}, jobs...)
	}
	run := func(j job) error {
		r := runner{program: p, server: s, path: path, client: j.client}
		defer r.close()
		for _, i := range j.behaviours {
			got, err := r.run(ctx, rows[i])
			if err != nil {
				return err
			}
			c.results[j.client][i] = got
		}
		return nil
	}
	if err := spread(jobs, o.parallel, run); err != nil {
		return c, err
	}
	return c, c.repeat(o, run)
}

// repeat runs again what only one client failed, and alone what Quorate did: a machine that is busy is no difference. The
// short form repeats only what decides its outcome.
func (c column) repeat(o options, run func(job) error) error {
	var theirs, ours []job
	for i, r := range c.results[servers.Quorate] {
		switch {
		case r == nil || (r.wrong == "") == (c.results[servers.Official][i].wrong == ""):
		case r.wrong != "":
			ours = append(ours, job{servers.Quorate, []int{i}})
		case !o.short:
			theirs = append(theirs, job{servers.Official, []int{i}})
		}
	}
	err := errors.Join(spread(theirs, o.parallel, run), spread(ours, 1, run))
	for _, j := range append(theirs, ours...) {
		r := c.results[j.client][j.behaviours[0]]
		r.again = r.wrong == ""
	}
	return err
}

// spread runs jobs, as many at a time as parallel says.
func spread(jobs []job, parallel int, run func(job) error) error {
	var work errgroup.Group
	work.SetLimit(parallel)
	for _, j := range jobs {
		work.Go(func() error { return run(j) })
	}
	return work.Wait()
}

// runner runs behaviours of one client on one server, which it starts when it needs it. A server that was acted upon or on
// which something went wrong is not used again.
type runner struct {
	program *servers.Program
	server  servers.Server
	path    string
	client  servers.Client

	running *servers.Running
}

func (r *runner) close() {
	if r.running != nil {
		_ = r.running.Close()
		r.running = nil
	}
}

func (r *runner) run(ctx context.Context, b behaviours.Behaviour) (*result, error) {
	if r.running == nil {
		var err error
		if r.running, err = r.server.Start(ctx, r.path, b.Setup); err != nil {
			return nil, err
		}
	}
	wrong, err := r.show(ctx, b)
	if err != nil {
		return nil, err
	}
	if wrong != "" {
		r.close()
	}
	return &result{wrong: wrong}, nil
}

// show runs the program for one behaviour and returns what it found to be wrong.
func (r *runner) show(ctx context.Context, b behaviours.Behaviour) (string, error) {
	inner, cancel := context.WithTimeout(ctx, b.Limit+grace)
	defer cancel()
	outcome, err := r.program.Behave(inner, r.client, r.running.Site(), b.String())
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err == nil:
		return outcome.Error, nil
	case inner.Err() != nil:
		return fmt.Sprintf("nothing within %v", b.Limit+grace), nil
	default:
		line, _, _ := strings.Cut(err.Error(), "\n")
		return line, nil
	}
}
