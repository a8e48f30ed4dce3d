// Package clients is a process of a fleet: one client, or several.
package clients

import (
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/lab/bench/internal/cputime"
)

// opensAtOnce bounds how many clients open at a time.
const opensAtOnce = 20

// Stdio is the standard input and output of a process of clients, seen from either side.
type Stdio struct {
	io.Reader
	io.WriteCloser
}

// Serve serves a [Clients] of package rpc until the input ends. The input ends with the parent, however that ends.
func Serve(conn Stdio) error {
	c := &Clients{}
	defer func() { c.all.close() }()
	server := rpc.NewServer()
	if err := server.Register(c); err != nil {
		return err
	}
	server.ServeCodec(jsonrpc.NewServerCodec(conn))
	return nil
}

// Clients are the clients of a process. Its methods are called one after the other.
type Clients struct{ all callers }

// Open opens the clients of a job, and answers when they are ready.
func (c *Clients) Open(j Job, s *State) (err error) {
	if c.all, err = openAll(j); err == nil {
		*s = c.all.execute(Command{})
	}
	return err
}

// Execute carries out a command, and answers with the state after it.
func (c *Clients) Execute(cmd Command, s *State) error {
	*s = c.all.execute(cmd)
	return nil
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
