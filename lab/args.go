package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// peerPort is the port in the members' peer URLs. Together with the addresses it is
// a name and never connected to.
const peerPort = 2380

// peerAddress returns the host:port by which the other members know the member at
// index. The host is of TEST-NET-1, which is kept free for documentation (RFC
// 5737): etcd takes it without a name lookup, Go's HTTP client does not exempt it
// from the proxy as it does loopback, and nothing answers there should a connection
// miss the proxy.
func peerAddress(index int) string {
	return fmt.Sprintf("192.0.2.%d:%d", index+1, peerPort)
}

// executable is the program that members run.
type executable struct {
	path     string
	argv0    string
	fsyncOff bool // knows --unsafe-no-fsync
}

// findExecutable returns the program that cfg asks for.
func findExecutable(ctx context.Context, cfg Config) (executable, error) {
	if cfg.Binary == "" {
		path := os.Getenv(programEnv)
		if path == "" {
			var err error
			if path, err = os.Executable(); err != nil {
				return executable{}, fmt.Errorf("lab: the path of this program is not known: %w", err)
			}
		}
		return executable{path: path, argv0: memberProgram, fsyncOff: true}, nil
	}
	path, err := exec.LookPath(cfg.Binary)
	if err == nil {
		path, err = filepath.Abs(path) // members do not run in the working directory of this program
	}
	if err != nil {
		return executable{}, fmt.Errorf("lab: Config.Binary: %w", err)
	}
	if cfg.Command != nil {
		return executable{path: path, argv0: path}, nil
	}
	help, err := helpText(ctx, path)
	if err != nil {
		return executable{}, err
	}
	return executable{path: path, argv0: path, fsyncOff: bytes.Contains(help, []byte("--unsafe-no-fsync"))}, nil
}

// helpTimeout bounds an etcd that only prints its flags.
const helpTimeout = 10 * time.Second

func helpText(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, helpTimeout)
	defer cancel()
	text, err := exec.CommandContext(ctx, path, "--help").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("lab: Config.Binary: %s --help: %w", path, err)
	}
	if !bytes.Contains(text, []byte("--initial-cluster")) {
		return nil, fmt.Errorf("lab: Config.Binary: %s is not an etcd server: its --help lacks --initial-cluster", path)
	}
	return text, nil
}

// commandLocked returns the command that runs member m on its present ports. The lock is m.mu.
func (c *Cluster) commandLocked(m *Member, p ports) *exec.Cmd {
	flags := c.flagsLocked
	if c.cfg.Command != nil {
		flags = c.launch
	}
	cmd := exec.Command(c.program.path, flags(m, p)...)
	cmd.Args[0] = c.program.argv0
	cmd.Env = environment(os.Environ(), m.peerProxy.url())
	cmd.Dir = c.dir
	return cmd
}

// flagsLocked returns the command line of member m. Each of them is known to etcd 3.4 and
// to etcd 3.7. The lock is m.mu.
func (c *Cluster) flagsLocked(m *Member, p ports) []string {
	members := make([]string, 0, len(c.members))
	for _, other := range c.members {
		members = append(members, other.name+"=https://"+peerAddress(other.index))
	}
	flags := []string{
		"--name=" + m.name,
		"--data-dir=" + c.file(m.name),
		"--listen-peer-urls=https://" + p.peer,
		"--initial-advertise-peer-urls=https://" + peerAddress(m.index),
		"--peer-auto-tls",
		"--listen-client-urls=" + c.scheme() + "://" + p.client,
		"--advertise-client-urls=" + m.Endpoint(),
		"--initial-cluster=" + strings.Join(members, ","),
		"--initial-cluster-token=" + filepath.Base(c.dir),
		"--heartbeat-interval=" + milliseconds(c.cfg.Heartbeat),
		"--election-timeout=" + milliseconds(c.cfg.Election),
		"--logger=zap",
		"--log-outputs=stderr",
		"--log-level=warn",
	}
	if m.joins {
		flags = append(flags, "--initial-cluster-state=existing")
	}
	if c.program.fsyncOff {
		flags = append(flags, "--unsafe-no-fsync")
	}
	if c.cfg.TLS {
		flags = append(flags, "--cert-file="+c.tls.files.ServerCert, "--key-file="+c.tls.files.ServerKey)
	}
	if c.cfg.ClientCertAuth {
		flags = append(flags, "--client-cert-auth", "--trusted-ca-file="+c.tls.files.CA)
	}
	return append(flags, c.cfg.Args...)
}

// launch returns the command line of a server that is no member.
func (c *Cluster) launch(m *Member, p ports) []string {
	return c.cfg.Command(Launch{Address: p.client, Endpoint: m.Endpoint(), Dir: c.file(m.name), TLS: c.TLSFiles()})
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// environment returns the environment of a member: that of the parent without what
// configures etcd, service managers or HTTP proxies, and with the proxy that leads
// to the links to its peers.
func environment(parent []string, proxy string) []string {
	own := slices.DeleteFunc(slices.Clone(parent), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD", "NOTIFY_SOCKET":
			return true
		case "ETCD_UNSUPPORTED_ARCH":
			return false
		}
		return strings.HasPrefix(name, "ETCD_")
	})
	return append(own, "HTTPS_PROXY="+proxy)
}
