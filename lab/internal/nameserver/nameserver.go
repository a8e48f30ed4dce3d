// Package nameserver is a DNS server for tests.
package nameserver

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	miekg "github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// Mood is how a DNS server answers.
type Mood int

// The moods of a Server.
const (
	WellBehaved Mood = iota
	Failing          // SERVFAIL
	Refusing         // REFUSED
	Silent
	Foreign // what it answers is not the answer to the query, but to another one
)

// Server is a DNS server with UDP and TCP on the same port.
type Server struct {
	Addr string

	mu      sync.Mutex
	mood    Mood
	moods   map[string]Mood       // by domain, for the names below it
	records map[string][]miekg.RR // by name and type, like "svc.test. A"
	queries map[string]int        // by name and type
}

// Start runs a server until the test ends. If the port of addr is 0, it finds one.
func Start(t *testing.T, addr string) *Server {
	t.Helper()
	packets, listener := listenBoth(t, addr)
	ns := &Server{Addr: packets.LocalAddr().String(), moods: map[string]Mood{}, records: map[string][]miekg.RR{}, queries: map[string]int{}}
	udp := &miekg.Server{PacketConn: packets, Handler: ns}
	tcp := &miekg.Server{Listener: listener, Handler: ns}
	for _, s := range []*miekg.Server{udp, tcp} {
		started, done := make(chan struct{}), make(chan error, 1)
		s.NotifyStartedFunc = func() { close(started) }
		go func() { done <- s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() {
			require.NoError(t, s.Shutdown())
			require.NoError(t, <-done)
		})
	}
	return ns
}

// listenBoth finds a port that is free for UDP and TCP.
func listenBoth(t *testing.T, addr string) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 100 {
		packets, err := net.ListenPacket("udp", addr)
		require.NoError(t, err)
		if listener, err := net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			return packets, listener
		}
		require.NoError(t, packets.Close())
	}
	require.FailNow(t, "no port is free for both UDP and TCP")
	return nil, nil
}

// ServeDNS answers a query.
func (ns *Server) ServeDNS(w miekg.ResponseWriter, query *miekg.Msg) {
	q := query.Question[0]
	key := strings.ToLower(q.Name) + " " + miekg.TypeToString[q.Qtype]
	reply := new(miekg.Msg).SetReply(query)
	reply.Authoritative = true
	ns.mu.Lock()
	ns.queries[key]++
	now := ns.mood
	for domain, m := range ns.moods {
		if miekg.IsSubDomain(domain, q.Name) {
			now = m
		}
	}
	reply.Answer = ns.records[key]
	ns.mu.Unlock()
	switch {
	case now == Silent:
		return
	case now == Failing:
		reply.SetRcode(query, miekg.RcodeServerFailure)
	case now == Refusing:
		reply.SetRcode(query, miekg.RcodeRefused)
	case now == Foreign:
		reply.Question[0].Name = "foreign.test."
		reply.Answer = []miekg.RR{&miekg.A{
			Hdr: miekg.RR_Header{Name: q.Name, Rrtype: miekg.TypeA, Class: miekg.ClassINET, Ttl: 1}, A: net.IPv4(192, 0, 2, 66),
		}}
	case len(reply.Answer) == 0 && !ns.exists(q.Name):
		reply.SetRcode(query, miekg.RcodeNameError)
	}
	if _, overTCP := w.RemoteAddr().(*net.TCPAddr); !overTCP {
		size := miekg.MinMsgSize
		if opt := query.IsEdns0(); opt != nil {
			size = int(opt.UDPSize())
		}
		reply.Truncate(size)
	}
	_ = w.WriteMsg(reply) // the client may be gone
}

func (ns *Server) exists(name string) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for key, records := range ns.records {
		if len(records) > 0 && strings.HasPrefix(key, strings.ToLower(name)+" ") {
			return true
		}
	}
	return false
}

// Set replaces the records of a name and type, "svc.test. A" for instance; each is written
// as in a zone file, after the type: "5 127.0.0.1" is a TTL and an address.
func (ns *Server) Set(t *testing.T, key string, records ...string) {
	t.Helper()
	name, kind, _ := strings.Cut(key, " ")
	all := make([]miekg.RR, len(records))
	for i, r := range records {
		ttl, data, _ := strings.Cut(r, " ")
		rr, err := miekg.NewRR(strings.Join([]string{name, ttl, "IN", kind, data}, " "))
		require.NoError(t, err)
		all[i] = rr
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.records[key] = all
}

// Be has the server answer in a mood: in general, or for names in the domains if there are some.
func (ns *Server) Be(m Mood, domains ...string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for _, domain := range domains {
		ns.moods[domain] = m
	}
	if len(domains) == 0 {
		ns.mood = m
	}
}

// Asked returns how many queries there were for a name and type.
func (ns *Server) Asked(key string) int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.queries[key]
}

// Dialer has a gRPC client find the addresses of names here, instead of with the system's
// DNS servers.
func (ns *Server) Dialer() grpc.DialOption {
	d := &net.Dialer{Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, ns.Addr)
		},
	}}
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", address)
	})
}
