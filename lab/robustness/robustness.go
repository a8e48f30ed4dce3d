// Package robustness runs a workload on a cluster under faults, and checks what its clients received.
//
// [Run] starts a cluster and runs a [Workload] on it. [Env.InjectFaults] kills, stops and cuts off members, moves leaders, and
// cuts, delays and blackholes links, in an order that the seed gives, for a configured time. A recorder takes the whole history
// of the store from the members themselves, past the links and the clients under test.
//
// The workloads are packages below: faults, which injects one fault after the other, and the soaks watches, linear, locks and
// resolvers; the last injects faults into sources of names in place of InjectFaults. Packages watchcheck and lockcheck compare
// watches and locks with that history, and linear/model checks that answers are linearizable. Package client has the clients
// under test: Quorate, and the official client. A run counts what happened in [Counts], which its [Outcome] prints.
package robustness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
)

// recordTimeout is how long the recorder may take to reach the current revision.
const recordTimeout = 30 * time.Second

// leakTimeout is how long goroutines may take to end after everything is closed.
const leakTimeout = 20 * time.Second

// Workload has clients use a cluster until the faults are over, lets them settle while the cluster is healthy, closes them, and
// checks what they received. Its context ends when the faults are over. An error ends it, see package fatal.
type Workload func(ctx context.Context, env *Env)

// Env is the surroundings of a workload, and the outcome that it fills.
type Env struct {
	*Log
	Outcome
	Config  Config
	Cluster *lab.Cluster
	// Record has the history of the store.
	Record *Recorder

	cleanups []func() error
	over     context.CancelFunc // ends the context of the workload
}

// Cleanup has something closed by Close: last what came first.
func (e *Env) Cleanup(clean func() error) { e.cleanups = append(e.cleanups, clean) }

// Close runs the cleanups. A workload calls it when the clients have settled; when the workload fails, [Run] does.
func (e *Env) Close() (err error) {
	for _, clean := range slices.Backward(e.cleanups) {
		err = errors.Join(err, clean())
	}
	e.cleanups = nil
	return err
}

// Rand returns a source of random numbers for one part of a workload, so that what it draws does not change what another one
// does. Parts are counted from 0; two share nothing.
func (e *Env) Rand(part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(e.Seed, firstPart+part))
}

// The streams of random numbers of a seed.
const (
	faultStream = iota << 32
	cutStream
	firstPart
)

// Recorded waits until the recorder has reached the current revision of the store, and returns that revision, and the events
// up to it in the order of their revisions. They must not be changed. An error ends the workload.
func (e *Env) Recorded() (revision int64, events []history.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	revision, events, err := e.Record.catchUp(ctx)
	fatal.If(err)
	return revision, events
}

// Run runs a workload on a cluster with the members and the directory of cfg. The error says why the run could not go on; a promise
// that was broken is no error, see the outcome's Verdict. The end of ctx ends the run early, which is no error either.
//
// When Run returns, the cluster is gone with its processes, ports and files.
func Run(ctx context.Context, cfg Config, cluster lab.Config, work Workload) (Outcome, error) {
	if err := cfg.Complete(); err != nil {
		return Outcome{}, err
	}
	env := &Env{Log: NewLog(cfg.Log), Config: cfg, Outcome: Outcome{Seed: cfg.Seed, Members: cfg.Members, Counts: cfg.Counts}}
	err := env.run(ctx, cluster, work)
	env.Interrupted = ctx.Err() != nil
	return env.Outcome, err
}

// run runs between the start and the end of the cluster.
func (e *Env) run(ctx context.Context, cluster lab.Config, work Workload) (err error) {
	e.Note(fmt.Sprintf("starting %d members, seed %d", e.Members, e.Seed))
	cluster.Members, cluster.Dir = e.Members, e.Config.Dir
	e.Cluster, err = lab.Start(ctx, cluster)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, e.Cluster.Close()) }()
	e.Record = startRecorder(e.Cluster, e.Now)
	defer e.Record.stop()
	ctx, e.over = context.WithTimeout(ctx, e.Config.Duration)
	defer e.over()
	err = errors.Join(fatal.Catch(func() { work(ctx, e) }), e.Close())
	if err == nil || !e.Verdict.OK() { // what was found is shown, although something else failed
		e.Duration = e.Now()
	}
	return err
}

// InjectFaults injects random faults until the context of the workload ends, or one fails, and heals the cluster.
func (e *Env) InjectFaults(ctx context.Context) error {
	defer e.over()
	scene := fault.Scene{Cluster: e.Cluster, Rand: rand.New(rand.NewPCG(e.Seed, faultStream)), Note: e.Note}
	count := func(what string) { e.Counts.Add("faults", what, 1) }
	err := fault.Storm(ctx, scene, rand.New(rand.NewPCG(e.Seed, cutStream)), count)
	e.Note("the faults are over: the traffic stops, and the clients settle")
	return err
}

// Go does something n times at once. The channel is closed when all is done.
func Go(n int, do func(int)) <-chan struct{} {
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() { do(i) })
	}
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	return done
}

// Await waits for something to be done, and fails with a text if that takes too long.
func Await(done <-chan struct{}, timeout time.Duration, otherwise string) error {
	select {
	case <-done:
		return nil
	case <-time.After(timeout):
		return fmt.Errorf("%s (%v)", otherwise, timeout)
	}
}

// Leaked waits for goroutines to end, and fails with the stacks of those that are left.
func Leaked(already goleak.Option) error {
	for deadline := time.Now().Add(leakTimeout); ; {
		err := goleak.Find(already) // it pauses between its own attempts
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("goroutines are left behind: %w", err)
		}
	}
}

// Promise names what is checked, as reports spell it.
type Promise = tally.Promise

// Verdict is what the checks found.
type Verdict = tally.Verdict

// Counts has what a run counted.
type Counts = tally.Counts

// Outcome is the result of a run. If the run failed before it found anything, only the fields up to Interrupted count.
type Outcome struct {
	// Seed and Members as configured.
	Seed    uint64
	Members int
	// Interrupted reports whether the run was asked to end early.
	Interrupted bool

	// Duration from the beginning to the end of the checks.
	Duration time.Duration
	// Counts has the faults, and what the workload counted.
	Counts *Counts
	// Verdict lists the violations.
	Verdict Verdict
}

// Checked reports whether there was anything to check.
func (o Outcome) Checked() bool { return o.Duration > 0 }

// String returns the outcome in lines for people.
func (o Outcome) String() string {
	if !o.Checked() {
		return "nothing was checked\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d members, seed %d, %s\n", o.Members, o.Seed, o.Duration.Round(time.Second))
	if o.Counts != nil {
		b.WriteString(o.Counts.String())
	}
	fmt.Fprintf(&b, "%-21s%v", "verdict", o.Verdict)
	return b.String()
}

// Defaults of a Config.
const (
	DefaultDuration = time.Minute
	DefaultMembers  = 3
)

// maxMembers is the largest cluster that the lab starts.
const maxMembers = 9

// Config has the settings that all runs share. Fields that are zero have their default.
type Config struct {
	// Duration is how long faults are injected. To start, to settle and to check takes some ten or twenty seconds more. Default
	// one minute.
	Duration time.Duration
	// Members of the cluster, 3 to 9. Default 3.
	Members int
	// Seed of every choice: faults, keys, operations. Two runs of a seed choose alike and still differ, because time is
	// real.
	Seed uint64
	// Dir is where the cluster keeps its files while it runs. Default os.TempDir().
	Dir string
	// Log, if set, gets lines on what is being done to the cluster.
	Log io.Writer
	// Counts, if set, receives the counts of the run while it goes on.
	Counts *Counts
}

// Complete sets the defaults. The error names everything that is wrong.
func (c *Config) Complete() (err error) {
	c.Duration = cmp.Or(c.Duration, DefaultDuration)
	c.Members = cmp.Or(c.Members, DefaultMembers)
	c.Counts = cmp.Or(c.Counts, &Counts{})
	c.Log = cmp.Or(c.Log, io.Discard)
	if c.Duration < 0 {
		err = fmt.Errorf("the duration must be more than 0; it is %v", c.Duration)
	}
	if c.Members < fault.MinMembers || c.Members > maxMembers {
		err = errors.Join(err, fmt.Errorf("the number of members must be %d to %d, so that a majority outlives the loss of one; it is %d",
			fault.MinMembers, maxMembers, c.Members))
	}
	return err
}

// Log is the log of a run, and its clock.
type Log struct {
	began time.Time
	mu    sync.Mutex
	out   io.Writer
}

// NewLog returns the log of a run that begins now.
func NewLog(out io.Writer) *Log { return &Log{began: time.Now(), out: out} }

// Now returns the time since the run began.
func (l *Log) Now() time.Duration { return time.Since(l.began) }

// Note writes a line.
func (l *Log) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.out, "%7.1fs  %s\n", l.Now().Seconds(), text)
}
