package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/lab/internal/child"
	"github.com/quorate/quorate/lab/link"
)

// Proxy is etcd's own gRPC proxy in front of a cluster: a process like a member's,
// with a link of its own to its clients. Its methods may be called from several
// goroutines.
type Proxy struct {
	cluster *Cluster
	name    string
	client  *link.Link // from clients to the proxy
	spawner *child.Spawner

	starting sync.Mutex // held while the process is being started

	mu      sync.Mutex
	process *process // the last run, nil before the first
	retired bool     // by Close: nothing starts any more

	closing sync.Once
	closed  error
}

// StartProxy starts etcd's gRPC proxy ("etcd grpc-proxy start", of the executable
// that the members run) in front of all members of the cluster, and returns when it
// passes calls on. It reaches the members through their links. StartProxy gives up
// when ctx ends, or after a minute, and refuses a cluster with Config.TLS: the proxy
// requires a client certificate without a common name there, and the lab's has one.
//
// The proxy must be closed, before the cluster is. One of the built-in etcd ends with
// its cluster, and with this program, in any case.
func StartProxy(ctx context.Context, cluster *Cluster) (*Proxy, error) {
	if cluster.cfg.TLS {
		return nil, errors.New("lab: a gRPC proxy cannot reach a cluster with Config.TLS: start the cluster without it")
	}
	client, err := link.Listen("")
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	_, port, err := net.SplitHostPort(client.Addr())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lab: %w", err), client.Close())
	}
	p := &Proxy{cluster: cluster, name: "proxy-" + port, client: client, spawner: child.NewSpawner()}
	if err := p.Restart(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Endpoint returns the URL at which clients reach the proxy through its link. It
// stays the same until Close.
func (p *Proxy) Endpoint() string { return p.cluster.scheme() + "://" + p.client.Addr() }

// Link returns the link from all clients to the proxy.
func (p *Proxy) Link() *link.Link { return p.client }

// PID returns the process id of the proxy's last run, 0 if there was none.
func (p *Proxy) PID() int {
	if run := p.lastRun(); run != nil {
		return run.PID()
	}
	return 0
}

// Kill ends the proxy at once (SIGKILL), as a crash would, and returns when it is
// gone. Killing a proxy that is not running does nothing.
func (p *Proxy) Kill() error {
	run := p.lastRun()
	if run == nil {
		return nil
	}
	if err := run.Kill(); err != nil {
		return fmt.Errorf("lab: kill %s: %w", p.name, err)
	}
	<-run.released
	return nil
}

// Restart starts a proxy that is not running again, behind the same link, and waits
// until it passes calls on, ctx ends or a minute has passed; after an error nothing
// is running. A running proxy gives ErrRunning.
func (p *Proxy) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p.starting.Lock()
	defer p.starting.Unlock()
	for range bindAttempts {
		run, err := p.spawn()
		if err != nil {
			return err
		}
		select {
		case <-run.serving:
			return nil
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("lab: %s does not serve: %w\n%s", p.name, context.Cause(ctx), run.log.tail()), p.Kill())
		case <-run.released:
		}
		if lines := run.log.tail(); !strings.Contains(lines, "address already in use") {
			return fmt.Errorf("lab: %s ended while starting: %w\n%s", p.name, run.Cause(), lines)
		}
	}
	return fmt.Errorf("lab: %s found no free port in %d attempts", p.name, bindAttempts)
}

// Close kills the proxy and returns when its process, its link and its goroutines
// are gone. Closing again returns the same result.
func (p *Proxy) Close() error {
	p.closing.Do(func() { p.closed = p.close() })
	return p.closed
}

func (p *Proxy) close() error {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	killed := p.Kill()
	p.starting.Lock() // a start under way has noticed that the proxy is retired when this is free
	defer p.starting.Unlock()
	p.spawner.Close()
	return errors.Join(killed, p.client.Close())
}

func (p *Proxy) lastRun() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process
}

// spawn starts the process on a free port, and a goroutine that looks after it.
func (p *Proxy) spawn() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return nil, fmt.Errorf("lab: start %s: the proxy is closed", p.name)
	}
	if p.process != nil && p.process.Alive() {
		return nil, fmt.Errorf("lab: start %s: %w", p.name, ErrRunning)
	}
	at, err := freePorts()
	if err != nil {
		return nil, err
	}
	c := p.cluster
	log, err := openLog(c.dir.join(p.name+".log"), p.name, c.output)
	if err != nil {
		return nil, errors.Join(err, at.release())
	}
	run, err := startProcess(p.spawner, p.command(at.client), log, c.parentPipe.read, c.dir.join(p.name+memberLockSuffix))
	if err != nil {
		return nil, errors.Join(err, log.close(), at.release())
	}
	p.process = run
	go p.supervise(run, at)
	return run, nil
}

// supervise lets clients reach the process when it serves, and breaks the link when
// it ends.
func (p *Proxy) supervise(run *process, at ports) {
	defer close(run.released)
	if p.awaitServing(run, at.client) {
		p.client.SetTarget(at.client)
		close(run.serving)
	}
	<-run.Exited()
	p.client.SetTarget("")
	_ = at.release()
	_ = run.log.close() // every line has been written
}

// awaitServing polls a process until a member answers through it, and reports false
// when it ends first.
func (p *Proxy) awaitServing(run *process, address string) bool {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(transportCredentials(nil)),
		grpc.WithConnectParams(controlConnect),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		_ = run.Kill() // without a connection it would not be seen to serve
		return false
	}
	defer func() { _ = conn.Close() }()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		_, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
		cancel()
		if err == nil || answered(err) {
			return run.Alive()
		}
		select {
		case <-run.Exited():
			return false
		case <-time.After(pollInterval):
		}
	}
}

// command returns the command that runs the proxy on the given address.
func (p *Proxy) command(address string) *exec.Cmd {
	c := p.cluster
	cmd := exec.Command(c.program.path, "grpc-proxy", "start",
		"--endpoints="+strings.Join(c.Endpoints(), ","),
		"--listen-addr="+address,
		"--advertise-client-url="+p.Endpoint(),
		"--data-dir="+c.dir.join(p.name),
	)
	cmd.Args[0] = c.program.argv0
	cmd.Env = environment(os.Environ(), "")
	cmd.Dir = c.dir.path
	return cmd
}
