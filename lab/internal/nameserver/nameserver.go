package dns_test

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

// mood is how a DNS server answers.
type mood int

const (
	wellBehaved mood = iota
	failing          // SERVFAIL
	silent
)

// nameserver is a DNS server on loopback, with UDP and TCP on the same port.
type nameserver struct {
	addr string

	mu      sync.Mutex
	mood    mood
	records map[string][]miekg.RR // by name and type, like "svc.test. A"
	queries map[string]int        // by name and type
}

func startNameserver(t *testing.T) *nameserver {
	t.Helper()
	packets, listener := listenBoth(t)
	ns := &nameserver{addr: packets.LocalAddr().String(), records: map[string][]miekg.RR{}, queries: map[string]int{}}
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
func listenBoth(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 100 {
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
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
func (ns *nameserver) ServeDNS(w miekg.ResponseWriter, query *miekg.Msg) {
	q := query.Question[0]
	key := strings.ToLower(q.Name) + " " + miekg.TypeToString[q.Qtype]
	reply := new(miekg.Msg).SetReply(query)
	reply.Authoritative = true
	ns.mu.Lock()
	ns.queries[key]++
	now := ns.mood
	reply.Answer = ns.records[key]
	ns.mu.Unlock()
	switch {
	case now == silent:
		return
	case now == failing:
		reply.SetRcode(query, miekg.RcodeServerFailure)
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

func (ns *nameserver) exists(name string) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for key, records := range ns.records {
		if len(records) > 0 && strings.HasPrefix(key, strings.ToLower(name)+" ") {
			return true
		}
	}
	return false
}

// set replaces the records of a name and type, "svc.test. A" for instance; each is written
// as in a zone file, after the type: "5 127.0.0.1" is a TTL and an address.
func (ns *nameserver) set(t *testing.T, key string, records ...string) {
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

func (ns *nameserver) be(m mood) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.mood = m
}

// asked returns how many queries there were for a name and type.
func (ns *nameserver) asked(key string) int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.queries[key]
}

// dialer has a gRPC client find the addresses of names here, instead of with the system's
// DNS servers.
func (ns *nameserver) dialer() grpc.DialOption {
	d := &net.Dialer{Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, ns.addr)
		},
	}}
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", address)
	})
}
