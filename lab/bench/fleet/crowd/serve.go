// Package crowd is a process of a fleet: one client, or several.
package crowd

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

// Serve opens the clients of the job that it reads, and obeys orders until the input
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
	if err := encoder.Encode(all.obey(Order{})); err != nil {
		return err
	}
	for {
		var o Order
		switch err := decoder.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read an order: %w", err)
		}
		if err := encoder.Encode(all.obey(o)); err != nil {
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

// obey carries out an order and returns the state of the process after it.
func (all callers) obey(o Order) State {
	s := State{CPU: cputime.Used()}
	for _, c := range all {
		s.Add(c.obey(o))
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
