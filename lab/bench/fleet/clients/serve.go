// Package clients is a process of a fleet: one client, or several.
package clients

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/lab/bench/internal/cputime"
)

// opensAtOnce bounds how many clients open at a time.
const opensAtOnce = 20

// Serve opens the clients of the job that it reads, and writes their state when they are ready, and after each command that it
// reads then. It returns when the input ends, which ends with the parent, however that ends.
func Serve(in io.Reader, out io.Writer) error {
	commands, states := json.NewDecoder(in), json.NewEncoder(out)
	var j Job
	if err := commands.Decode(&j); err != nil {
		return err
	}
	all, err := openAll(j)
	defer func() { all.close() }()
	if err != nil {
		return err
	}
	for cmd := (Command{}); err == nil; err = commands.Decode(&cmd) {
		if err := states.Encode(all.execute(cmd)); err != nil {
			return err
		}
		cmd = Command{}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// callers are the clients of the process.
type callers []*caller

// openAll opens the clients of a job. Those that it returns with an error must be closed too.
func openAll(j Job) (callers, error) {
	cfg := clientv3.Config{Endpoints: j.Endpoints, Logger: zap.NewNop()}
	if j.CA != "" {
		var err error
		if cfg.TLS, err = (transport.TLSInfo{TrustedCAFile: j.CA, CertFile: j.Cert, KeyFile: j.Key}).ClientConfig(); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex
	var all callers
	var work errgroup.Group
	work.SetLimit(opensAtOnce)
	for range max(j.Clients, 1) {
		work.Go(func() error {
			c, err := open(cfg)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c)
			return nil
		})
	}
	err := work.Wait()
	return all, err
}

// execute carries out a command and returns the state of the process after it.
func (all callers) execute(cmd Command) State {
	s := State{CPU: cputime.Used()}
	for _, c := range all {
		s.Add(c.execute(cmd))
	}
	return s
}

func (all callers) close() {
	var work sync.WaitGroup
	for _, c := range all {
		work.Go(c.close)
	}
	work.Wait()
}

// Job describes the clients of a process.
type Job struct {
	Endpoints []string
	// Clients of the process. Default 1.
	Clients int
	// CA, Cert and Key are PEM files; all are empty for members that serve without TLS.
	CA, Cert, Key string
}

// Command is what clients do from now on.
type Command struct {
	// Deadline is that of the gets from now on. 0 stops the gets.
	Deadline time.Duration
	// Mark forgets that there was an answer.
	Mark bool
}

// State is what clients have done since they started.
type State struct {
	Answered, Failed int64 // gets
	// HaveAnswers is the number of clients that a get was answered to since the last Mark.
	HaveAnswers int
	// CPU is the CPU time of the processes.
	CPU time.Duration
}

// Add adds the state of others.
func (s *State) Add(other State) {
	s.Answered += other.Answered
	s.Failed += other.Failed
	s.HaveAnswers += other.HaveAnswers
	s.CPU += other.CPU
}
