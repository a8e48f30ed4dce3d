package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/port"
	"github.com/quorate/quorate/lab/internal/child"
	"github.com/quorate/quorate/lab/link"
)

// Errors of a member's methods.
var (
	// ErrNotRunning is returned for a member whose process does not exist: Restart
	// starts it.
	ErrNotRunning = errors.New("member is not running")
	// ErrRunning is returned by Member.Restart for a member whose process exists:
	// Kill or Terminate ends it.
	ErrRunning = errors.New("member is running")
	// ErrFrozen is returned by Member.Terminate for a frozen member, which cannot
	// act on a signal: Continue wakes it.
	ErrFrozen = errors.New("member is frozen")
	// ErrClosed is returned after Cluster.Close.
	ErrClosed = errors.New("cluster is closed")
)

// Member is one member of a cluster. Its methods may be called from several
// goroutines.
type Member struct {
	cluster *Cluster
	index   int
	name    string
	client  *link.Link       // from clients to this member
	proxy   string           // the URL of the proxy that hands what this member dials to peers
	control *grpc.ClientConn // straight to the member
	login   atomic.Pointer[login]
	// ports are where the member listens, behind the links. On Linux they stay reserved while it does not run; elsewhere
	// another process may take them, and then the member does not start again.
	ports struct{ client, peer *port.Port }

	starting sync.Mutex // held while the process is being started

	mu      sync.Mutex
	id      uint64
	process *process // the last run, nil before the first
	frozen  bool
	joins   bool // it joins a running cluster: see BecomeLearner
	retired bool // by Cluster.Close: nothing starts any more
}

// Name returns the member's etcd name: m1, m2, and so on.
func (m *Member) Name() string { return m.name }

// Index returns the member's place in Cluster.Members, from 0.
func (m *Member) Index() int { return m.index }

// Endpoint returns the URL at which clients reach the member through its link. It
// stays the same for the life of the cluster, and is what the member advertises.
func (m *Member) Endpoint() string {
	return m.cluster.scheme() + "://" + m.client.Addr()
}

// DirectEndpoint returns the URL of the member itself, past its link.
func (m *Member) DirectEndpoint() string {
	return m.cluster.scheme() + "://" + m.ports.client.Address()
}

// Conn returns a plain gRPC connection straight to the member, past the links. It
// outlives restarts and belongs to the cluster: do not close it. It logs in as
// Cluster.SetCredentials says.
func (m *Member) Conn() *grpc.ClientConn { return m.control }

// ID returns the member's etcd id, 0 before it was known to serve.
func (m *Member) ID() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// PID returns the process id of the member's last run, 0 if there was none.
func (m *Member) PID() int {
	if p := m.lastRun(); p != nil {
		return p.PID()
	}
	return 0
}

// Alive reports whether the member's process exists. A frozen member is alive; see
// Frozen.
func (m *Member) Alive() bool {
	p := m.lastRun()
	return p != nil && p.Alive()
}

// Frozen reports whether the member is frozen by Freeze.
func (m *Member) Frozen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process != nil && m.process.Alive() && m.frozen
}

// Kill ends the member at once (SIGKILL), as a crash of the process would, and
// returns when it is gone. Its data stays. Killing a member that is not running
// does nothing.
func (m *Member) Kill() error {
	p := m.lastRun()
	if p == nil {
		return nil
	}
	if err := p.Kill(); err != nil {
		return fmt.Errorf("lab: kill %s: %w", m.name, err)
	}
	<-p.released
	return nil
}

// Freeze stops the member (SIGSTOP), as a hung host would: connections stay up and
// are accepted by the kernel, nothing is answered. It fails with ErrNotRunning on a
// member that is not running.
func (m *Member) Freeze() error { return m.setFrozen("freeze", (*child.Process).Freeze, true) }

// Continue wakes a member frozen by Freeze (SIGCONT). On a member that runs it does
// nothing.
func (m *Member) Continue() error { return m.setFrozen("continue", (*child.Process).Continue, false) }

func (m *Member) setFrozen(verb string, act func(*child.Process) error, frozen bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := ErrNotRunning
	if m.process != nil && m.process.Alive() {
		err = act(m.process.Process)
	}
	if err != nil {
		return fmt.Errorf("lab: %s %s: %w", verb, m.name, err)
	}
	m.frozen = frozen
	return nil
}

// Terminate asks the member to end (SIGTERM), which lets it hand over leadership
// and finish its calls, and waits until it is gone or ctx ends. Terminating a
// member that is not running does nothing; a frozen one gives ErrFrozen.
func (m *Member) Terminate(ctx context.Context) error {
	m.mu.Lock()
	p, frozen := m.process, m.frozen
	m.mu.Unlock()
	if p == nil || !p.Alive() {
		return nil
	}
	if frozen {
		return fmt.Errorf("lab: terminate %s: %w", m.name, ErrFrozen)
	}
	if err := p.Terminate(); err != nil {
		return fmt.Errorf("lab: terminate %s: %w", m.name, err)
	}
	select {
	case <-p.released:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lab: terminate %s: still running: %w", m.name, context.Cause(ctx))
	}
}

// Restart starts a member that is not running again, on the same data and behind
// the same links, and waits until it serves. A member serves only when a majority
// runs: after the loss of a majority restart its members concurrently. When ctx, or
// Config.StartTimeout, ends first, Restart returns an error and the member goes on starting;
// when the process ends first, the error holds the last lines of its log. A running
// member gives ErrRunning.
func (m *Member) Restart(ctx context.Context) error {
	if m.Alive() {
		return fmt.Errorf("lab: restart %s: %w", m.name, ErrRunning)
	}
	ctx, cancel := context.WithTimeout(ctx, m.cluster.cfg.StartTimeout)
	defer cancel()
	return m.start(ctx)
}

// start runs the member's process and waits until it serves.
func (m *Member) start(ctx context.Context) error {
	m.starting.Lock()
	defer m.starting.Unlock()
	if last := m.lastRun(); last != nil && !last.Alive() {
		<-last.released
	}
	var p *process
	if err := fatal.Catch(func() { p = m.spawn() }); err != nil {
		return fmt.Errorf("lab: start %s: %w", m.name, err)
	}
	select {
	case <-p.serving:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lab: %s does not serve yet: %w\n%s", m.name, context.Cause(ctx), p.tail())
	case <-p.released:
		return fmt.Errorf("lab: %s ended while starting: %w\n%s", m.name, p.Cause(), p.tail())
	}
}

// spawn starts the process and a goroutine that looks after it. An error ends it, see package fatal.
func (m *Member) spawn() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.retired {
		fatal.If(ErrClosed)
	}
	if m.process != nil && m.process.Alive() {
		fatal.If(ErrRunning)
	}
	c := m.cluster
	p := startProcess(c.commandLocked(m), c.file(m.name+".log"), c.parentPipe)
	m.process, m.frozen = p, false
	go m.supervise(p)
	return p
}

// supervise connects the process to its peers, and to clients once it serves. It
// breaks the links when the process ends: where ports cannot be reserved, another
// cluster may get them.
func (m *Member) supervise(p *process) {
	defer close(p.released)
	m.cluster.aimPeers(m, m.ports.peer.Address())
	if m.awaitServing(p) {
		m.client.SetTarget(m.ports.client.Address())
		close(p.serving)
	}
	<-p.Exited()
	m.client.SetTarget("")
	m.cluster.aimPeers(m, "")
}

// LogTail returns the last lines that the member logged in its last run.
func (m *Member) LogTail() string {
	if p := m.lastRun(); p != nil {
		return p.tail()
	}
	return ""
}

// lastRun returns the member's process, which may be over, or nil if it never had
// one.
func (m *Member) lastRun() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// running reports whether the process exists and is not frozen.
func (m *Member) running() bool { return m.Alive() && !m.Frozen() }

// retire ends the member for good, and waits for a start that is under way.
func (m *Member) retire() error {
	m.mu.Lock()
	m.retired = true
	m.mu.Unlock()
	err := m.Kill()
	m.starting.Lock()
	defer m.starting.Unlock()
	return err
}

// logTail is how much of a member's log an error holds, in bytes.
const logTail = 4 << 10

// process is one run of a member's etcd.
type process struct {
	*child.Process
	log      string        // path of what it wrote
	serving  chan struct{} // closed when it answers clients
	released chan struct{} // closed when, after its end, its links lead nowhere
}

// startProcess starts cmd with its output going to a new file at log, and with the read end of the parent's pipe.
func startProcess(cmd *exec.Cmd, log string, parentPipe *os.File) *process {
	output := fatal.OK(os.Create(log))
	defer func() { _ = output.Close() }() // the process has its copy
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{parentPipe} // it becomes parentPipeFD
	run := fatal.OK(child.Start(cmd))
	return &process{Process: run, log: log, serving: make(chan struct{}), released: make(chan struct{})}
}

// tail returns the last bytes of the log, for an error.
func (p *process) tail() string { return child.Tail(p.log, logTail) }

// BecomeLearner replaces the member by a learner: it is killed, removed from the cluster, added
// again as a learner, and started without data, at the same endpoint and with another id. The
// others must have a majority without it. Nothing promotes it. BecomeLearner returns when the
// learner serves, and fails when ctx ends, or after Config.StartTimeout.
func (m *Member) BecomeLearner(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cluster.cfg.StartTimeout)
	defer cancel()
	id := m.ID()
	err := fatal.Catch(func() {
		fatal.If(m.Kill())
		m.cluster.reconfigure(ctx, rpctypes.ErrMemberNotFound, func(client pb.ClusterClient) error {
			_, err := client.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id})
			return err
		})
		peer := "https://" + peerAddress(m.index)
		m.cluster.reconfigure(ctx, rpctypes.ErrPeerURLExist, func(client pb.ClusterClient) error {
			_, err := client.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{peer}, IsLearner: true})
			return err
		})
		fatal.If(os.RemoveAll(m.cluster.file(m.name)))
	})
	if err != nil {
		return fmt.Errorf("lab: make %s a learner: %w", m.name, err)
	}
	m.mu.Lock()
	m.joins = true
	m.mu.Unlock()
	return m.start(ctx)
}

// reconfigure requests a change of the membership from the leader until it is made: etcd refuses
// changes until its members have been connected for five seconds, unless --strict-reconfig-check
// is false. done is the error that means that an earlier request, whose answer was lost, has made
// the change. An error ends it, see package fatal.
func (c *Cluster) reconfigure(ctx context.Context, done error, change func(pb.ClusterClient) error) {
	fatal.If(c.poll(ctx, func(ctx context.Context) error {
		leader, err := c.findLeader(ctx)
		if err != nil {
			return err
		}
		err = change(pb.NewClusterClient(leader.control))
		if errors.Is(rpctypes.Error(err), done) {
			return nil
		}
		return err
	}))
}
