package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/internal/cputime"
)

// fleetJob describes the clients of a process of a fleet.
type fleetJob struct {
	Client    string
	Clients   int
	Endpoints []string
	Files     lab.TLSFiles  // empty for members that serve without TLS
	Deadline  time.Duration // of the gets, 0 for none
}

// fleetState is what clients have done since they started.
type fleetState struct {
	Answered, Failed int64 // gets
	// HaveAnswers is the number of clients that have had an answer to a get since they were asked to forget.
	HaveAnswers int
	CPU         time.Duration
}

// fleetProcess is the parent's side of a process of clients.
type fleetProcess struct {
	*exec.Cmd
	jobs   *json.Encoder
	states *json.Decoder
}

// start starts the processes, a few at a time, and returns when their clients are ready.
func (f *fleet) start(job fleetJob) {
	n := *fleetProcesses
	if n == 0 {
		n = *fleetClients
	}
	f.processes = make([]*fleetProcess, n)
	var work errgroup.Group
	work.SetLimit(4)
	for i := range f.processes {
		part := job
		part.Clients = (*fleetClients + i) / n
		work.Go(func() (err error) {
			f.processes[i], err = startProcess(f, part)
			return err
		})
	}
	fatal.If(work.Wait())
}

// startProcess starts a process with one OS thread for Go code.
func startProcess(ctx context.Context, job fleetJob) (*fleetProcess, error) {
	cmd := exec.CommandContext(ctx, os.Args[0], "fleet")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return nil, err
	}
	p := &fleetProcess{cmd, json.NewEncoder(stdin), json.NewDecoder(stdout)}
	return p, errors.Join(p.jobs.Encode(job), p.states.Decode(&fleetState{}))
}

// close kills the processes.
func (f *fleet) close() {
	for _, p := range f.processes {
		if p != nil {
			_ = p.Process.Kill()
			_ = p.Wait() // it was killed
		}
	}
}

// ask returns what the clients have done, and lets them forget that they have had answers.
func (f *fleet) ask(forget bool) (sum fleetState) {
	for _, p := range f.processes {
		fatal.If(p.jobs.Encode(forget))
	}
	for _, p := range f.processes {
		var s fleetState
		fatal.If(p.states.Decode(&s))
		sum.Answered += s.Answered
		sum.Failed += s.Failed
		sum.HaveAnswers += s.HaveAnswers
		sum.CPU += s.CPU
	}
	return sum
}

// serveFleet is a process of a fleet. It reads a job, opens its clients, and writes their state, at first and whenever it reads
// whether they are to forget. It ends with its input, which ends with the parent, however that ends.
func serveFleet() error {
	commands, states := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var job fleetJob
	if err := commands.Decode(&job); err != nil {
		return err
	}
	callers := make([]caller, job.Clients)
	var work errgroup.Group
	work.SetLimit(20)
	for i := range callers {
		work.Go(func() error { return callers[i].open(job) })
	}
	err := work.Wait()
	for err == nil {
		s := fleetState{CPU: cputime.Used()}
		for i := range callers {
			s.Answered += callers[i].answered.Load()
			s.Failed += callers[i].failed.Load()
			if callers[i].hasAnswer.Load() {
				s.HaveAnswers++
			}
		}
		var forget bool
		err = errors.Join(states.Encode(s), commands.Decode(&forget))
		for i := range callers {
			if forget {
				callers[i].hasAnswer.Store(false)
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// caller uses one client, until the process ends.
type caller struct {
	client           client
	answered, failed atomic.Int64 // gets
	hasAnswer        atomic.Bool
}

// open makes the client, its watch and its lease, and begins to use it.
func (c *caller) open(job fleetJob) error {
	cfg := config{endpoints: job.Endpoints}
	var err error
	if job.Files.CA != "" {
		files := transport.TLSInfo{TrustedCAFile: job.Files.CA, CertFile: job.Files.ClientCert, KeyFile: job.Files.ClientKey}
		if cfg.tls, err = files.ClientConfig(); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == job.Client })
	if c.client, err = kinds[i].open(cfg); err != nil {
		return err
	}
	kept, err := c.lease()
	if err != nil {
		return err
	}
	go c.watch()
	go func() {
		for {
			for open := true; open; {
				open = kept.read()
			}
			time.Sleep(retryPause)
			if again, err := c.lease(); err == nil {
				kept = again
			}
		}
	}()
	if job.Deadline > 0 {
		go c.makeGets(job.Deadline)
	}
	return nil
}

// retryPause is the pause after a watch or a lease is lost.
const retryPause = time.Second

func (c *caller) lease() (renewals, error) {
	granting, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return c.client.lease(context.Background(), granting, 30)
}

// watch opens a new watch when the client ends one.
func (c *caller) watch() {
	for {
		var err error
		for w := c.client.watchAll(context.Background(), "fleet/", 0); err == nil; {
			_, err = w.next()
		}
		time.Sleep(retryPause)
	}
}

// makeGets starts a get each second, from a random moment on. A get does not wait for the previous one.
func (c *caller) makeGets(deadline time.Duration) {
	time.Sleep(rand.N(time.Second))
	for range time.Tick(time.Second) {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			if err := c.client.get(ctx, "fleet/key"); err != nil {
				c.failed.Add(1)
				return
			}
			c.answered.Add(1)
			c.hasAnswer.Store(true)
		}()
	}
}
