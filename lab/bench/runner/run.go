// Package runner runs the cases: each sample in a process of its own, against a cluster of the lab, the two clients in turn.
package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/bench/internal/programs"
	"github.com/quorate/quorate/lab/bench/report"
)

// Config says what is run.
type Config struct {
	// Cases are run in their order.
	Cases []cases.Case
	// Programs are what is measured, compiled with both clients.
	Programs programs.Set
	// Repeat is how many samples are taken of each case with each client. A case
	// that takes long may bound it.
	Repeat int
	// Short runs the cases at their ShortSize.
	Short bool
	// Progress is told what is being done. It may be nil.
	Progress func(string)
}

// Run runs the cases and returns the results of those that were completed, and why
// others were not. The two clients take turns, and who begins changes from one
// repetition to the next, so that what else happens on the machine hits both.
func Run(ctx context.Context, cfg Config) (report.Report, error) {
	rep := report.New(cfg.Short)
	var failed []error
	for _, c := range cfg.Cases {
		result, err := cfg.run(ctx, c)
		if err == nil {
			rep.Results = append(rep.Results, result)
			continue
		}
		failed = append(failed, fmt.Errorf("case %s: %w", c.Name, err))
		if ctx.Err() != nil {
			break
		}
	}
	return rep, errors.Join(failed...)
}

func (cfg Config) run(ctx context.Context, c cases.Case) (result report.Result, err error) {
	s := &stage{Case: c, programs: cfg.Programs, size: c.Size, short: cfg.Short}
	if cfg.Short {
		s.size = c.ShortSize
	}
	defer func() { err = errors.Join(err, s.clear()) }()
	result = report.Result{Case: c, Size: s.size, Samples: make(map[string][]cases.Sample)}
	rounds := cfg.Repeat
	if c.MaxRepeat > 0 {
		rounds = min(rounds, c.MaxRepeat)
	}
	for round := range rounds {
		for _, name := range turns(round) {
			if cfg.Progress != nil {
				cfg.Progress(fmt.Sprintf("%s: %s, %d of %d", c.Name, name, round+1, rounds))
			}
			sample, err := s.sample(ctx, name)
			if err != nil {
				return result, fmt.Errorf("%s: %w", name, err)
			}
			result.Samples[name] = append(result.Samples[name], sample)
		}
	}
	return result, nil
}

// turns returns the clients in the order of a round.
func turns(round int) []string {
	order := []string{report.Official, report.Quorate}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// stage is where a case is run.
type stage struct {
	cases.Case
	programs programs.Set
	size     int
	short    bool
	rig      *rig // nil when there is none at present
}

// sample runs the case once.
func (s *stage) sample(ctx context.Context, name string) (cases.Sample, error) {
	if s.rig == nil {
		var err error
		if s.rig, err = newRig(ctx, s.Case, s.size); err != nil {
			return nil, err
		}
	}
	j := cases.Job{
		Case: s.Name, Endpoints: s.rig.endpoints, Size: s.size, Short: s.short, Revision: s.rig.revision,
	}
	sample, err := measure(ctx, s.programs[name], j, s.rig)
	if s.Alone {
		err = errors.Join(err, s.clear())
	}
	return sample, err
}

func (s *stage) clear() error {
	if s.rig == nil {
		return nil
	}
	err := s.rig.close()
	s.rig = nil
	return err
}
