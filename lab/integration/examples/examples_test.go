package examples_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestExamples(t *testing.T) {
	r := newRig(t, "...")
	r.start("lock").ends("holds the lock, and has written: true", "holds the lock, and has written: false")
	r.start("election", "--name", "ann", "--term", "100ms").ends("ann leads", "ann resigns")
	r.start("election", "--name", "bob", "--term", "100ms").ends("bob leads", "bob resigns")
	r.start("unknownoutcome").ends("counted to 10")
	r.start("unknownoutcome").ends("counted to 20")
	r.start("service").ends("the service is SERVING")
	r.quickstart()
	r.watches()
	r.configs()
	r.leaders()
	r.controllers()
	r.jobs()
	r.counter()

	programs, _ := filepath.Glob("../../../examples/*/main.go")
	assert.Len(t, r.ran, len(programs), "each of %v is run", programs)
	for name := range r.ran {
		r.interrupts(filepath.Join(r.bin, name))
	}
}

// interrupts runs an example over a server that never answers, and interrupts it.
func (r *rig) interrupts(path string) {
	r.t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	defer silent.Close()
	defer context.AfterFunc(r.ctx, func() { silent.Close() })()
	cmd := exec.CommandContext(r.ctx, path, "--endpoints", silent.Addr().String())
	require.NoError(r.t, cmd.Start())
	conn, err := silent.Accept() // the example handles interrupts before it connects
	require.NoError(r.t, err)
	defer conn.Close()
	require.NoError(r.t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	assert.True(r.t, cmd.ProcessState.Exited(), "%s does not end after an interrupt: %v", path, cmd.ProcessState)
}

// quickstart runs the example until no write of it has an unknown outcome: a member that stands still for a second causes one.
func (r *rig) quickstart() {
	p := r.start("quickstart")
	for p.wait() != nil {
		require.Contains(r.t, p.logs.String(), "unknown")
		p = r.start("quickstart")
	}
	assert.Regexp(r.t, `^examples/quickstart = hello, written at revision \d+: true$`, <-p.lines)
	assert.Equal(r.t, "deleted: 1", <-p.lines)
}

// write commits a transaction that may be repeated: again while its outcome is unknown.
func (r *rig) write(ops ...clientv3.Op) {
	r.t.Helper()
	labtest.UntilKnown(r.ctx, r.t, func() error { _, err := r.client.Txn(r.ctx).Then(ops...).Commit(); return err })
}

// watches writes while the example follows.
func (r *rig) watches() {
	const prefix = "examples/watched/"
	r.write(clientv3.OpPut(prefix+"before", "v"))
	watch := r.start("watch", "--until", prefix+"end")
	watch.says("1 keys")
	r.write(clientv3.OpPut(prefix+"before", "v"), clientv3.OpPut(prefix+"new", "v"), clientv3.OpPut(prefix+"end", "v"))
	watch.ends("PUT "+prefix+"before = v", "PUT "+prefix+"new = v", "PUT "+prefix+"end = v")
}

// configs changes a configuration while the example follows it: on a healthy cluster, while its leader is frozen, and after that.
func (r *rig) configs() {
	follows := r.start("configstore")
	follows.says("synced  0 <nil>")
	set := func(replicas int) {
		r.start("configstore", "--name", "web", "--replicas", strconv.Itoa(replicas)).ends()
		follows.says(fmt.Sprintf("put web %d <nil>", replicas))
	}
	set(1)
	leader := r.leader()
	require.NoError(r.t, leader.Freeze())
	set(2)
	require.NoError(r.t, leader.Continue())
	set(3)
	follows.signal(syscall.SIGINT)
	require.NoError(r.t, follows.wait())
}

// leaseTTL is how long a process that was killed or frozen keeps the leadership. It is long enough for one that is late on a busy
// machine, or waits for an election of etcd.
const leaseTTL = "9s"

// leaders freezes, interrupts and kills the process that leads. The one that was frozen writes nothing any more.
func (r *rig) leaders() {
	start := func(name string) *process {
		return r.start("election", "--name", name, "--term", "1h", "--ttl", leaseTTL)
	}
	ann := start("ann")
	ann.says("ann leads")
	bob := start("bob")
	ann.signal(syscall.SIGSTOP)
	bob.says("bob leads")
	for r.value("examples/plan") != "bob" {
		require.NoError(r.t, r.ctx.Err())
		time.Sleep(10 * time.Millisecond)
	}
	ann.signal(syscall.SIGCONT)
	ann.says("ann resigns")
	assert.Equal(r.t, "bob", r.value("examples/plan"))

	bob.signal(syscall.SIGTERM)
	bob.ends("bob resigns")
	ann.says("ann leads")
	carol := start("carol")
	ann.kill()
	carol.says("carol leads")
	carol.signal(syscall.SIGINT)
	carol.ends("carol resigns")
}

// controllers runs two processes of which one reconciles, with a member of the cluster frozen meanwhile. The one that leads is frozen
// too: the other one goes on, and the first writes nothing when it wakes.
func (r *rig) controllers() {
	desire := func(name string) { r.write(clientv3.OpPut("examples/desired/"+name, name)) }
	// await returns which of the values it is.
	await := func(name string, wants ...string) (got string) {
		r.t.Helper()
		for got = name; !slices.Contains(wants, got); got = r.value("examples/actual/" + name) {
			require.NoError(r.t, r.ctx.Err())
			time.Sleep(10 * time.Millisecond)
		}
		return got
	}
	start := func(name string) *process { return r.start("controller", "--name", name, "--ttl", leaseTTL) }
	desire("zoe")
	dan := start("dan")
	await("zoe", "dan made zoe")
	eve := start("eve")

	frozen := r.cluster.Members()[(r.leader().Index()+1)%3]
	require.NoError(r.t, frozen.Freeze())
	desire("yan")
	leads, next, name := dan, eve, "eve"
	if await("yan", "dan made yan", "eve made yan") == "eve made yan" { // a slow machine may lose the lead with the member
		leads, next, name = eve, dan, "dan"
	}
	r.write(clientv3.OpDelete("examples/desired/zoe"))
	await("zoe", "")
	leads.signal(syscall.SIGSTOP)
	await("yan", name+" made yan")
	leads.signal(syscall.SIGCONT)
	desire("xia")
	await("xia", name+" made xia")
	require.NoError(r.t, frozen.Continue())
	leads.signal(syscall.SIGINT)
	_ = leads.wait() // a candidate that is interrupted has not led
	await("yan", name+" made yan")
	next.signal(syscall.SIGTERM)
	require.NoError(r.t, next.wait())

	r.write(clientv3.OpDelete("examples/desired/yan")) // no process leads
	last := start("fay")
	await("yan", "")
	await("xia", "fay made xia")
	last.signal(syscall.SIGTERM)
	require.NoError(r.t, last.wait())
}

// counter runs processes of the example that count. The one that counts is frozen, and another one killed; the leader of
// etcd is frozen in between. The key has been written as often as its value says: no number is missing, and none is counted twice.
func (r *rig) counter() {
	const to = 300
	var reading sync.WaitGroup
	var counts atomic.Pointer[process] // the one that has begun to count last
	start := func() *process {
		p := r.start("counter", "--to", "1000000000", "--ttl", "3s") // it is ended
		reading.Go(func() {
			for range p.lines {
				counts.Store(p)
			}
		})
		return p
	}
	counted := func(n int) {
		r.t.Helper()
		for got := -1; got < n; time.Sleep(20 * time.Millisecond) {
			resp, err := r.client.Get(r.ctx, "examples/count")
			require.NoError(r.t, err)
			if resp.Count > 0 {
				got, err = strconv.Atoi(string(resp.Kvs[0].Value))
				require.NoError(r.t, err)
				assert.EqualValues(r.t, got, resp.Kvs[0].Version)
			}
		}
	}
	processes := map[*process]bool{start(): true, start(): true}
	counted(to / 5)
	frozen := counts.Load()
	frozen.signal(syscall.SIGSTOP)
	counted(2 * to / 5)
	leader := r.leader()
	require.NoError(r.t, leader.Freeze())
	frozen.signal(syscall.SIGCONT)
	counted(3 * to / 5)
	require.NoError(r.t, leader.Continue())
	killed := counts.Load()
	killed.kill()
	delete(processes, killed)
	processes[start()] = true
	counted(to)
	for p := range processes {
		p.signal(syscall.SIGINT)
		_ = p.wait() // its last number may be lost with its context
	}
	reading.Wait()
}
