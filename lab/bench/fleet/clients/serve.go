// Package clients is a process of a fleet: one client, or several.
package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/lab/bench/internal/cputime"
)

// opensAtOnce bounds how many clients open at a time.
const opensAtOnce = 20

// Serve opens the clients of the job that it reads, and executes commands until the input
// ends. The input ends with the parent, however that ends.
func Serve(in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	var j Job
	if err := decoder.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	all, err := openAll(j)
	defer all.close()
	if err != nil {
		return encoder.Encode(State{Error: err.Error()})
	}
	if err := encoder.Encode(all.execute(Command{})); err != nil {
		return err
	}
	for {
		var cmd Command
		switch err := decoder.Decode(&cmd); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a command: %w", err)
		}
		if err := encoder.Encode(all.execute(cmd)); err != nil {
			return err
		}
	}
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
