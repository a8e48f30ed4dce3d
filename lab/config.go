package lab

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/testpki"
)

// Defaults and limits of a Config.
const (
	DefaultMembers  = 3
	DefaultElection = 500 * time.Millisecond

	// maxMembers is above the seven that etcd advises as the largest cluster, and
	// what one machine can run.
	maxMembers = 9
)

// Config describes a cluster. Its zero value is three members of the etcd that is
// built in.
type Config struct {
	// Members is the number of members, 1 to 9. Default 3.
	Members int
	// Election is the election timeout, in whole milliseconds. Default 500 ms, half of etcd's own
	// default, so that a lost leader is replaced in about a second. The leader's heartbeats are a tenth of it apart.
	Election time.Duration
	// TLS makes members serve their clients over TLS, with certificates of a CA
	// made for this cluster. See Cluster.TLSFiles and Cluster.ClientTLS.
	TLS bool
	// ClientCertAuth makes members demand a client certificate of that CA. It needs
	// TLS.
	ClientCertAuth bool
	// Binary is the path of an etcd executable, 3.4 or newer, to run in place of
	// the one built in.
	Binary string
	// Command returns the arguments of the executable when that is no etcd member but
	// serves etcd's API by itself, as kine and etcd's grpc-proxy do. Members is 1 then,
	// and the cluster is ready when it answers a client: it has no leader to agree on.
	Command func(Launch) []string
	// Ready returns an error unless the server of Command, which listens at an address,
	// is ready. Default: it answers Status.
	Ready func(ctx context.Context, address string) error
	// Args are further etcd flags, such as "--auth-token=jwt,…" or
	// "--quota-backend-bytes=…". They override those that the lab chooses, but
	// must not change names, URLs and the data directory.
	Args []string
	// Dir is the directory in which the cluster makes its data directory. Default
	// os.TempDir().
	Dir string
	// StartTimeout bounds starting, and every other wait for the cluster, when the
	// caller's context does not. Default five minutes: a cluster of three takes one to two
	// seconds, and up to 40 s on a busy machine.
	StartTimeout time.Duration
}

// Launch describes to Config.Command the process to start.
type Launch struct {
	// Address is the host:port on which it shall listen for clients.
	Address string
	// Endpoint is the URL at which clients reach it through its link.
	Endpoint string
	// Dir is a directory for its data, which stays for the life of the cluster.
	Dir string
	// TLS are the files to serve with; all are empty without Config.TLS.
	TLS TLSFiles
}

// complete returns the configuration with defaults in place of zero values, or an
// error that names every field that is wrong.
func (c Config) complete() (Config, error) {
	if c.Command != nil {
		c.Members = cmp.Or(c.Members, 1)
	}
	c.Members = cmp.Or(c.Members, DefaultMembers)
	c.Election = cmp.Or(c.Election, DefaultElection)
	c.Dir = cmp.Or(c.Dir, os.TempDir())
	c.StartTimeout = cmp.Or(c.StartTimeout, 5*time.Minute)
	var wrong []error
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf("lab: "+format, args...)) }

	if c.Members < 1 || c.Members > maxMembers {
		report("Config.Members is %d, want 1 to %d", c.Members, maxMembers)
	}
	if c.ClientCertAuth && !c.TLS {
		report("Config.ClientCertAuth is set without Config.TLS")
	}
	if c.Command != nil && (c.Members != 1 || c.Args != nil) {
		report("Config.Command excludes Config.Args and more than one of Config.Members")
	}
	if c.Binary == "" && !mainCalled.Load() {
		report("a member is this program started again: call lab.Main() first in main or TestMain, or set Config.Binary")
	}
	return c, errors.Join(wrong...)
}

// peerPort is the port in the members' peer URLs. Nothing connects to it: members reach
// each other through their proxies, see peerProxy.
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
type executable struct{ path, argv0 string }

// findExecutable returns the program of the members for cfg. An error ends it, see package fatal.
func findExecutable(cfg Config) executable {
	if cfg.Binary == "" {
		path := os.Getenv(programEnv)
		if path == "" {
			var err error
			path, err = os.Executable()
			fatal.If(err, "lab: the path of this program is not known")
		}
		return executable{path, memberProgram}
	}
	path, err := exec.LookPath(cfg.Binary)
	if err == nil {
		path, err = filepath.Abs(path) // members do not run in the working directory of this program
	}
	fatal.If(err, "lab: Config.Binary")
	return executable{path, path}
}

// commandLocked returns the command that runs member m. The lock is m.mu.
func (c *Cluster) commandLocked(m *Member) *exec.Cmd {
	var args []string
	if c.cfg.Command == nil {
		args = c.flagsLocked(m)
	} else {
		args = c.cfg.Command(Launch{
			Address: m.ports.client.Address(), Endpoint: m.Endpoint(), Dir: c.file(m.name), TLS: c.TLSFiles(),
		})
	}
	cmd := exec.Command(c.program.path, args...)
	cmd.Args[0] = c.program.argv0
	cmd.Env = environment(os.Environ(), m.proxy)
	cmd.Dir = c.dir
	return cmd
}

// flagsLocked returns the command line of member m: flags that etcd 3.4 and etcd 3.7 know.
// The lock is m.mu.
func (c *Cluster) flagsLocked(m *Member) []string {
	members := make([]string, 0, len(c.members))
	for _, other := range c.members {
		members = append(members, other.name+"=https://"+peerAddress(other.index))
	}
	flags := []string{
		"--name=" + m.name,
		"--data-dir=" + c.file(m.name),
		"--listen-peer-urls=https://" + m.ports.peer.Address(),
		"--initial-advertise-peer-urls=https://" + peerAddress(m.index),
		"--peer-auto-tls",
		"--listen-client-urls=" + m.DirectEndpoint(),
		"--advertise-client-urls=" + m.Endpoint(),
		"--initial-cluster=" + strings.Join(members, ","),
		"--initial-cluster-token=" + filepath.Base(c.dir),
		fmt.Sprintf("--heartbeat-interval=%d", c.cfg.Election.Milliseconds()/10),
		fmt.Sprintf("--election-timeout=%d", c.cfg.Election.Milliseconds()),
		"--logger=zap",
		"--log-outputs=stderr",
		"--log-level=warn",
	}
	if m.joins {
		flags = append(flags, "--initial-cluster-state=existing")
	}
	if c.cfg.TLS {
		flags = append(flags, "--cert-file="+c.tls.files.ServerCert, "--key-file="+c.tls.files.ServerKey)
	}
	if c.cfg.ClientCertAuth {
		flags = append(flags, "--client-cert-auth", "--trusted-ca-file="+c.tls.files.CA)
	}
	return append(flags, c.cfg.Args...)
}

// environment returns the environment of a member: that of the parent without what
// configures etcd, service managers or HTTP proxies, and with the proxy that leads
// to the links to its peers. The data need not survive the machine, so etcd does not sync its files.
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
	// A variable that an old etcd does not know is only logged.
	return append(own, "HTTPS_PROXY="+proxy, "ETCD_UNSAFE_NO_FSYNC=true")
}

// serverName is a DNS name in the members' certificate, in addition to the address
// 127.0.0.1.
const serverName = "localhost"

// TLSFiles are the paths of a TLS cluster's PEM files. They exist until
// Cluster.Close.
type TLSFiles struct {
	// CA is the certificate of the authority that signed the others.
	CA string
	// ServerCert and ServerKey are what the members serve with: valid for localhost
	// and 127.0.0.1.
	ServerCert, ServerKey string
	// ClientCert and ClientKey are a client certificate with the common name
	// "root".
	ClientCert, ClientKey string
}

// certificates are the files of a cluster and the client configuration made of
// them. The zero value is that of a cluster without TLS.
type certificates struct {
	files  TLSFiles
	client *tls.Config
	// expired is client with a certificate that is no longer valid.
	expired *tls.Config
}

// newCertificates makes an authority and certificates, and writes all but the
// authority's key to files. An error ends it, see package fatal.
func newCertificates(file func(name string) string) certificates {
	files := TLSFiles{
		CA:         file("ca.crt"),
		ServerCert: file("server.crt"), ServerKey: file("server.key"),
		ClientCert: file("client.crt"), ClientKey: file("client.key"),
	}
	ca := testpki.New(tb{}, "quorate-lab CA")
	fatal.If(os.WriteFile(files.CA, ca.PEM(), 0o600))
	// A member is a client of itself too (its HTTP gateway), with the certificate
	// that it serves with.
	server := ca.Issue(tb{}, "quorate-lab member", func(t *x509.Certificate) {
		t.DNSNames = []string{serverName}
		t.IPAddresses = append(t.IPAddresses, net.IPv6loopback)
	})
	client := func(change ...func(*x509.Certificate)) *tls.Config {
		config := ca.Client()
		config.MinVersion, config.ServerName = tls.VersionTLS12, serverName
		config.Certificates = []tls.Certificate{ca.Issue(tb{}, "root", change...)}
		return config
	}
	current := client()
	writePair(server, files.ServerCert, files.ServerKey)
	writePair(current.Certificates[0], files.ClientCert, files.ClientKey)
	return certificates{files, current, client(func(t *x509.Certificate) { t.NotAfter = time.Now().Add(-time.Minute) })}
}

func writePair(pair tls.Certificate, certFile, keyFile string) {
	certificate, key := testpki.PairPEM(tb{}, pair)
	fatal.If(errors.Join(os.WriteFile(certFile, certificate, 0o600), os.WriteFile(keyFile, key, 0o600)))
}

// tb lets package testpki end a function that runs within fatal.Catch.
type tb struct{}

func (tb) Helper() {}

func (tb) Fatal(args ...any) { fatal.If(errors.New(fmt.Sprint(args...))) }
