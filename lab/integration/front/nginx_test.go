package front_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/internal/port"
)

// nginx is a process of its own, which serves one site on addresses of 127.0.0.1.
type nginx struct {
	path, dir string
	address   string   // the first of addresses
	addresses []string // the addresses that it serves
	process   *os.Process
	ended     chan struct{}
}

// baseConfig includes the configuration of a site. Its files are in the directory that is the
// process's prefix, and it needs no privileges.
const baseConfig = `
%s
daemon off;
worker_processes 2;
worker_shutdown_timeout 2s;
pid nginx.pid;
error_log error.log info;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path temp;
    proxy_temp_path temp;
    fastcgi_temp_path temp;
    uwsgi_temp_path temp;
    scgi_temp_path temp;
    include site.conf;
}
`

// nginxPath returns where nginx is. Without it the test is skipped, and fails if
// QUORATE_REQUIRE_NGINX is 1.
func nginxPath(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} { // whose folder is not in every user's PATH
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const advice = "no nginx here. Install it (Debian: apt-get install nginx-light)"
	if os.Getenv("QUORATE_REQUIRE_NGINX") == "1" {
		t.Fatal(advice)
	}
	t.Skip(advice)
	return ""
}

// listens is where a site says which ports it is on.
var listens = regexp.MustCompile(`(?m)^    listen (\d+)`)

// startNginx serves a site, on ports of this machine's choice.
func startNginx(t *testing.T, site string) *nginx {
	t.Helper()
	n := &nginx{path: nginxPath(t), dir: t.TempDir()}
	for _, match := range listens.FindAllStringSubmatch(site, -1) {
		reserved, err := port.Reserve()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, reserved.Release()) })
		address := reserved.Address()
		_, number, err := net.SplitHostPort(address)
		require.NoError(t, err)
		site = strings.ReplaceAll(site, "listen "+match[1], "listen "+address)
		site = strings.ReplaceAll(site, "\n    "+match[1]+" ", "\n    "+number+" ") // in a map of ports
		n.addresses = append(n.addresses, address)
	}
	n.address = n.addresses[0]
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // workers of root's would be another user, who cannot enter the directory
	}
	n.write(t, "nginx.conf", fmt.Sprintf(baseConfig, user))
	n.write(t, "site.conf", site)
	n.start(t)
	t.Cleanup(func() {
		n.stop(t)
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(n.dir, "error.log"))
			t.Logf("nginx wrote:\n%s", log[max(0, len(log)-8<<10):])
		}
	})
	return n
}

func (n *nginx) write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, name), []byte(content), 0o600))
}

// start returns when nginx accepts connections.
func (n *nginx) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command(n.path, "-p", n.dir, "-c", "nginx.conf", "-e", "error.log")
	cmd.SysProcAttr = attributes()
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the process ends with this thread, see attributes
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	require.NoError(t, <-started)
	n.process, n.ended = cmd.Process, ended
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", n.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil || pause.Closed(n.ended)
	}, testTimeout, pollInterval, "nginx does not accept connections")
	require.False(t, pause.Closed(n.ended), "nginx does not accept its configuration")
}

// stop ends nginx and its connections at once.
func (n *nginx) stop(t *testing.T) {
	t.Helper()
	if n.process != nil {
		require.NoError(t, n.process.Signal(syscall.SIGTERM))
		<-n.ended
		n.process = nil
	}
}

const page = "../../../docs/proxies.md"

// documentedConfig returns a configuration that the documentation shows, with replacements for what
// differs here: pairs of old and new texts, each of which must be there.
func documentedConfig(t *testing.T, name string, replacements ...string) string {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	text := string(content)
	for i := 0; i < len(replacements); i += 2 {
		require.Contains(t, text, replacements[i], "%s has changed", name)
		text = strings.ReplaceAll(text, replacements[i], replacements[i+1])
	}
	return text
}

// What the documentation shows is what runs here.
func TestTheDocumentationShowsWhatIsTested(t *testing.T) {
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	for name, language := range map[string]string{
		"grpc.conf": "nginx", "etcd.conf": "nginx", "members.conf": "nginx", "cluster.json": "json",
	} {
		assert.Contains(t, string(content), "```"+language+"\n"+documentedConfig(t, name)+"```\n", "%s differs from testdata/%s", page, name)
	}
}
