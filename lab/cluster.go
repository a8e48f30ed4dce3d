package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/port"
	"github.com/quorate/quorate/lab/link"
)

// Cluster is a running cluster. Its methods may be called from several goroutines.
type Cluster struct {
	cfg        Config
	program    executable
	dir        string // of the data, "" before it is made
	tls        certificates
	parentPipe *os.File // read by members, which notice the end of this process by it
	members    []*Member
	links      [][]*link.Link // from member to member, by index; nil from one to itself

	undo      []func() error // what Close undoes, the last first
	closeOnce func() error
}

// Start starts a cluster and returns when all members serve and agree on a leader.
// It gives up when ctx ends, or after Config.StartTimeout; whatever it had started is gone then.
// The cluster must be closed.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	c := &Cluster{cfg: cfg}
	c.closeOnce = sync.OnceValue(c.close)
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	return fatal.Catch(func() {
		c.prepare()
		starts, starting := errgroup.WithContext(ctx)
		for _, m := range c.members {
			starts.Go(func() error { return m.start(starting) })
		}
		fatal.If(starts.Wait())
		fatal.If(c.WaitReady(ctx))
	})
}

// prepare makes everything but the processes. An error ends it, see package fatal.
func (c *Cluster) prepare() {
	c.program = findExecutable(c.cfg)
	var err error
	c.dir, err = os.MkdirTemp(c.cfg.Dir, "quorate-lab-")
	fatal.If(err, "lab: data directory")
	c.onClose(func() error { return os.RemoveAll(c.dir) })
	if c.cfg.TLS {
		c.tls = newCertificates(c.file)
	}
	read, write, err := os.Pipe()
	fatal.If(err, "lab")
	c.parentPipe = read
	c.onClose(read.Close)
	c.onClose(write.Close)
	c.linkPeers()
	for i := range c.cfg.Members {
		m := &Member{cluster: c, index: i, name: fmt.Sprintf("m%d", i+1)}
		c.members = append(c.members, m)
		m.prepare()
	}
	if c.cfg.Command != nil {
		fatal.If(os.Mkdir(c.file(c.members[0].name), 0o700))
	}
}

// onClose adds a function that Close calls.
func (c *Cluster) onClose(undo func() error) { c.undo = append(c.undo, undo) }

// linkPeers makes a link for each ordered pair of members.
func (c *Cluster) linkPeers() {
	for from := range c.cfg.Members {
		c.links = append(c.links, make([]*link.Link, c.cfg.Members))
		for to := range c.cfg.Members {
			if from != to {
				c.links[from][to] = link.New("")
				c.onClose(c.links[from][to].Close)
			}
		}
	}
}

// prepare makes the member's ends of its links.
func (m *Member) prepare() {
	c := m.cluster
	m.ports.client = fatal.OK(port.Reserve())
	c.onClose(m.ports.client.Release)
	m.ports.peer = fatal.OK(port.Reserve())
	c.onClose(m.ports.peer.Release)
	m.client = fatal.OK(link.Listen(""))
	c.onClose(m.client.Close)
	peers := make(peerProxy)
	for to, l := range c.links[m.index] {
		if l != nil {
			peers[peerAddress(to)] = l
		}
	}
	url, closeProxy := peers.serve()
	m.proxy = url
	c.onClose(closeProxy)
	m.control = fatal.OK(m.newControl())
	c.onClose(m.control.Close)
}

// Close kills the members, frozen ones too, and returns when their processes,
// files, ports and the cluster's goroutines are gone. Closing again returns the
// same result.
func (c *Cluster) Close() error { return c.closeOnce() }

func (c *Cluster) close() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.retire())
	}
	for _, undo := range slices.Backward(c.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// Members returns the members in the order of their index.
func (c *Cluster) Members() []*Member {
	return slices.Clone(c.members)
}

// Others returns the members but m, such as the followers of a leader.
func (c *Cluster) Others(m *Member) []*Member {
	return slices.DeleteFunc(c.Members(), func(other *Member) bool { return other == m })
}

// Endpoints returns the members' Endpoint URLs, in the order of Members.
func (c *Cluster) Endpoints() []string { return c.each((*Member).Endpoint) }

// DirectEndpoints returns the members' DirectEndpoint URLs, in the order of Members.
func (c *Cluster) DirectEndpoints() []string { return c.each((*Member).DirectEndpoint) }

func (c *Cluster) each(endpoint func(*Member) string) []string {
	endpoints := make([]string, 0, len(c.members))
	for _, m := range c.members {
		endpoints = append(endpoints, endpoint(m))
	}
	return endpoints
}

// Dir returns the cluster's data directory, which exists until Close.
func (c *Cluster) Dir() string { return c.dir }

// file returns the path of a file in the data directory.
func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

// TLSFiles returns the paths of the cluster's certificates and keys; all are empty
// without Config.TLS.
func (c *Cluster) TLSFiles() TLSFiles { return c.tls.files }

// ClientTLS returns a copy of a configuration that trusts the cluster's CA and
// holds the client certificate; nil without Config.TLS. It expects the server name
// localhost, whatever address is dialled.
func (c *Cluster) ClientTLS() *tls.Config { return c.tls.client.Clone() }

// ExpiredClientTLS is ClientTLS with a client certificate that has expired.
func (c *Cluster) ExpiredClientTLS() *tls.Config { return c.tls.expired.Clone() }

func (c *Cluster) scheme() string {
	if c.cfg.TLS {
		return "https"
	}
	return "http"
}

// ClientLink returns the link from all clients to member m.
func (c *Cluster) ClientLink(m *Member) *link.Link { return m.client }

// PeerLink returns the link of the connections that from dials to to, nil if they
// are the same member. Members open streams to their peers, and each peer writes
// its Raft messages to those streams; only a few messages are posted. So messages
// from a to b travel mostly on PeerLink(b, a) in reverse, and the rest on
// PeerLink(a, b) forward. To stop them all, block both.
func (c *Cluster) PeerLink(from, to *Member) *link.Link {
	return c.links[from.index][to.index]
}

// Isolate blackholes every link between m and its peers, both ways. Its clients
// still reach it. Other settings of the links stay.
func (c *Cluster) Isolate(m *Member) {
	for _, other := range c.Others(m) {
		c.PeerLink(m, other).Blackhole(link.Both)
		c.PeerLink(other, m).Blackhole(link.Both)
	}
}

// Heal ends all conditions of links, those of clients and those of peers. It does
// not continue or restart members.
func (c *Cluster) Heal() {
	for _, m := range c.members {
		m.client.Heal()
		for _, other := range c.Others(m) {
			c.PeerLink(m, other).Heal()
		}
	}
}

// aimPeers points the links of all other members at the address at which m listens
// for its peers.
func (c *Cluster) aimPeers(m *Member, address string) {
	for _, row := range c.links {
		if l := row[m.index]; l != nil {
			l.SetTarget(address)
		}
	}
}

// StartProxy starts etcd's gRPC proxy ("etcd grpc-proxy start", of the executable that the members run) in front of all
// members of the cluster, which it reaches through their links. It returns a cluster whose only member is the proxy,
// with a link to its clients; it can be killed and restarted like a member. That cluster must be closed, too. With tls the
// proxy serves over TLS, with certificates of its own cluster.
//
// StartProxy refuses a cluster with Config.TLS: the proxy requires a client certificate without a common name there, and
// the lab's has one.
func StartProxy(ctx context.Context, cluster *Cluster, tls bool) (*Cluster, error) {
	if cluster.cfg.TLS {
		return nil, errors.New("lab: a gRPC proxy cannot reach a cluster with Config.TLS: start the cluster without it")
	}
	return Start(ctx, Config{
		Binary: cluster.cfg.Binary, Dir: cluster.cfg.Dir, TLS: tls,
		Command: func(l Launch) []string {
			flags := []string{
				"grpc-proxy", "start", "--endpoints=" + strings.Join(cluster.Endpoints(), ","),
				"--listen-addr=" + l.Address, "--advertise-client-url=" + l.Endpoint, "--data-dir=" + l.Dir,
			}
			if tls {
				flags = append(flags, "--cert-file="+l.TLS.ServerCert, "--key-file="+l.TLS.ServerKey, "--trusted-ca-file="+l.TLS.CA)
			}
			return flags
		},
	})
}

// connectTimeout bounds the time between a member's connecting to its proxy and the
// end of its CONNECT request.
const connectTimeout = 5 * time.Second

// peerProxy is the HTTP proxy through which one member dials its peers, with the links by peer address. It knows who
// dials, since no other member uses it, and learns the peer from the CONNECT request;
// the connection then belongs to the link between the two.
type peerProxy map[string]*link.Link

// serve starts the proxy. closeProxy frees its port and ends the requests that are being read; the links are closed by their owner.
// An error ends it, see package fatal.
func (p peerProxy) serve() (url string, closeProxy func() error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(err, "lab: no port for the peer proxy")
	server := &http.Server{Handler: p, ReadHeaderTimeout: connectTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }() // until it is closed
	return "http://" + listener.Addr().String(), server.Close
}

// ServeHTTP answers a CONNECT request and gives the connection to its link. On a
// link that is cut the connection is reset, after the answer, as if the peer had
// done it.
func (p peerProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, known := p[r.Host]
	if r.Method != http.MethodConnect || !known {
		w.Header().Set("Connection", "close")
		http.Error(w, "the peer proxy does not serve this", http.StatusForbidden)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the connection has ended
	}
	_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil || buffered.Reader.Buffered() > 0 {
		_ = conn.Close()
		return
	}
	target.Go(conn)
}
