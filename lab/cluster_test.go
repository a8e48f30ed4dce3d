package lab_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/etcd34"
)

func ExampleStart() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cluster, err := lab.Start(ctx, lab.Config{Members: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()

	old, err := cluster.Leader(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := old.Kill(); err != nil {
		fmt.Println(err)
		return
	}
	next, err := cluster.Leader(ctx)
	fmt.Println(len(cluster.Endpoints()), "endpoints")
	fmt.Println("another leader:", err == nil && next != old)
	// Output:
	// 3 endpoints
	// another leader: true
}

func TestCloseLeavesNothing(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	dir := t.TempDir()
	c := start(t, lab.Config{Dir: dir})
	require.DirExists(t, c.Dir())

	var pids []int
	var addresses []string
	for _, m := range c.Members() {
		assert.True(t, m.Alive())
		pids = append(pids, m.PID())
		addresses = append(addresses, hostPort(t, m.Endpoint()), hostPort(t, m.DirectEndpoint()))
	}
	require.NoError(t, c.Members()[2].Freeze(), "a frozen member must not survive either")
	require.NoError(t, c.Close())
	require.NoError(t, c.Close(), "second close")

	for i, m := range c.Members() {
		assert.False(t, m.Alive())
		requireNoProcess(t, pids[i])
		assert.ErrorIs(t, m.Restart(grpctest.Within(t, soon)), lab.ErrClosed)
	}
	for _, address := range addresses {
		require.True(t, refused(address))
	}
	requireEmpty(t, dir)
	goleak.VerifyNone(t, leaks)
}

func TestStartErrors(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  lab.Config
		want []string
	}{
		"every wrong field is named": {
			lab.Config{Members: -1, ClientCertAuth: true},
			[]string{"Config.Members", "Config.ClientCertAuth"},
		},
		"election too long":           {lab.Config{Election: time.Minute}, []string{"ended while starting", "--election-timeout[60000ms]"}},
		"no such binary":              {lab.Config{Binary: "/nonexistent/etcd"}, []string{"Config.Binary", "/nonexistent/etcd"}},
		"binary is not etcd":          {lab.Config{Binary: "true"}, []string{"ended while starting: exit status 0"}},
		"no such directory":           {lab.Config{Dir: "/nonexistent"}, []string{"data directory", "/nonexistent"}},
		"etcd refuses: its own words": {lab.Config{Args: []string{"--quota-backend-bytes=much"}}, []string{"ended while starting", "quota-backend-bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.cfg.Dir == "" {
				test.cfg.Dir = t.TempDir()
				defer requireEmpty(t, test.cfg.Dir)
			}
			c, err := lab.Start(grpctest.Within(t, soon), test.cfg)
			require.Error(t, err)
			require.Nil(t, c)
			for _, want := range test.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

func TestStartGivesUpWithContext(t *testing.T) {
	dir := t.TempDir()
	_, err := lab.Start(grpctest.Within(t, 50*time.Millisecond), lab.Config{Dir: dir})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	requireEmpty(t, dir)
}

func TestTLSCluster(t *testing.T) {
	c := start(t, lab.Config{Members: 1, TLS: true, ClientCertAuth: true})
	client := dial(t, c)
	put(t, client, "k", "v")
	requireValue(t, client, "k", "v")

	assert.True(t, strings.HasPrefix(c.Endpoints()[0], "https://"))
	files := c.TLSFiles()
	for _, path := range []string{files.CA, files.ServerCert, files.ServerKey, files.ClientCert, files.ClientKey} {
		assert.FileExists(t, path)
	}
	info, err := os.Stat(files.ClientKey)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	anonymous := c.ClientTLS()
	anonymous.Certificates = nil
	nc, err := tls.Dial("tcp", hostPort(t, c.Endpoints()[0]), anonymous)
	if err == nil { // TLS 1.3 tells the client with its first read
		defer func() { _ = nc.Close() }()
		_, err = nc.Read(make([]byte, 1))
	}
	assert.ErrorContains(t, err, "certificate required")
}

func TestAuthenticatedCluster(t *testing.T) {
	ctx := grpctest.Within(t, soon)
	c := start(t, lab.Config{Members: 1, Args: []string{"--bcrypt-cost=4"}})
	m := c.Members()[0]
	client := dial(t, c)
	_, err := client.UserAdd(ctx, "root", "secret")
	require.NoError(t, err)
	_, err = client.RoleAdd(ctx, "root")
	require.NoError(t, err)
	_, err = client.UserGrantRole(ctx, "root", "root")
	require.NoError(t, err)
	c.SetCredentials("root", "secret")
	require.NoError(t, c.WaitReady(ctx), "credentials before authentication is enabled")
	_, err = client.AuthEnable(ctx)
	require.NoError(t, err)
	require.NoError(t, c.WaitReady(ctx))

	require.NoError(t, m.Kill())
	require.NoError(t, m.Restart(ctx))
	require.NoError(t, c.WaitReady(ctx), "the token of before the restart is not replaced")

	c.SetCredentials("", "")
	_, err = m.Status(ctx)
	assert.ErrorContains(t, err, "user name is empty")
	require.NoError(t, m.Kill())
	require.NoError(t, m.Restart(ctx), "a member that refuses serves")
	c.SetCredentials("root", "wrong")
	_, err = m.Status(ctx)
	assert.ErrorContains(t, err, "authentication failed")
	assert.NotContains(t, err.Error(), "wrong")
}

func TestEtcd34(t *testing.T) {
	c := start(t, lab.Config{Binary: etcd34.Path(t), TLS: true})
	status, err := c.Members()[0].Status(grpctest.Within(t, soon))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(status.Version, "3.4."), "version %s", status.Version)

	client := dial(t, c)
	put(t, client, "k", "v")
	old := leader(t, c)
	to := follower(t, c)
	require.NoError(t, c.MoveLeader(grpctest.Within(t, soon), to))
	require.NoError(t, old.Kill())
	require.NoError(t, old.Restart(grpctest.Within(t, soon)))
	require.NoError(t, c.WaitReady(grpctest.Within(t, soon)))
	requireValue(t, client, "k", "v")

	c.Isolate(to)
	next := awaitOtherLeader(t, c, to)
	put(t, dial(t, c, next.Endpoint()), "k", "isolated")
	assert.Equal(t, "v", local(t, to, "k"))
	c.Heal()
	require.Eventually(t, func() bool { return local(t, to, "k") == "isolated" }, soon, 10*time.Millisecond)
}

// awaitOtherLeader waits until a member other than the given one leads.
func awaitOtherLeader(t *testing.T, c *lab.Cluster, than *lab.Member) *lab.Member {
	t.Helper()
	var found *lab.Member
	require.Eventually(t, func() bool {
		found = leader(t, c)
		return found != than
	}, soon, 10*time.Millisecond)
	return found
}

// crashDir names the environment variable that turns the test program into one that
// starts a cluster in that directory and waits to be killed.
const crashDir = "QUORATE_LAB_TEST_CRASH_DIR"

func runUntilKilled(dir string) {
	c, err := lab.Start(context.Background(), lab.Config{Dir: dir})
	if err == nil {
		err = c.Members()[0].Freeze()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(c.DirectEndpoints(), " "))
	select {}
}

// A program that is killed leaves no member, not even a frozen one.
func TestCrashedParent(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	left := strings.Fields(line)
	require.Len(t, left, 3, "the program said: %s", line)

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // reports the kill
	for i, endpoint := range left {
		require.Eventually(t, func() bool { return refused(hostPort(t, endpoint)) }, soon, 10*time.Millisecond, "member %d lives on", i+1)
	}
}
