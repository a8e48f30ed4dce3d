// Package nameserver is a DNS server for tests and soaks.
package nameserver

import (
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/quorate/quorate/internal/port"
)

// Behaviour is how a DNS server answers.
type Behaviour int

// The behaviours of a Server.
const (
	WellBehaved Behaviour = iota
	Failing               // SERVFAIL
	Refusing              // REFUSED
	Silent
	Foreign   // it answers another query than the one it received
	Slow      // it answers after SlowFor
	Truncated // over UDP it answers only that TCP must be used
)

// SlowFor is how long a slow server takes for an answer.
const SlowFor = 300 * time.Millisecond

// Server is a DNS server with UDP and TCP on the same port.
type Server struct {
	Addr string

	mu          sync.Mutex
	behaviour   Behaviour
	behaviours  map[string]Behaviour  // by domain, for the names below it
	records     map[string][]miekg.RR // by name and type, like "svc.test. A"
	queries     map[string]int        // by name and type
	stop        func() error          // nil while it is stopped
	reserved    *port.Port            // nil if the port was chosen by the caller
	onQuery     func(time.Time)
	additionals bool
}

// TB is the part of testing.TB that tests need here.
type TB interface {
	Helper()
	Cleanup(func())
	Fatal(args ...any)
}

// Start runs a server until the test ends. If addr is "", it listens on a free port of 127.0.0.1.
func Start(t TB, addr string) *Server {
	t.Helper()
	ns, err := New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ns.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return ns
}

// New runs a server until Close. If addr is "", it listens on a free port of 127.0.0.1.
func New(addr string) (*Server, error) {
	ns := &Server{Addr: addr, behaviours: map[string]Behaviour{}, records: map[string][]miekg.RR{}, queries: map[string]int{}}
	if addr == "" {
		reserved, err := port.Reserve()
		if err != nil {
			return nil, err
		}
		ns.Addr, ns.reserved = reserved.Address(), reserved
	}
	if err := ns.Restart(); err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	return ns, nil
}

// Restart begins to listen again after Stop, at the same address. The records are kept.
func (ns *Server) Restart() error {
	listener, err := net.Listen("tcp", ns.Addr)
	if err != nil {
		return err
	}
	packets, err := listenUDP(ns.Addr)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	servers := []*miekg.Server{{PacketConn: packets, Handler: ns}, {Listener: listener, Handler: ns}}
	done := make(chan error, len(servers))
	for _, s := range servers {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { done <- s.ActivateAndServe() }()
		<-started
	}
	ns.stop = func() error {
		return errors.Join(servers[0].Shutdown(), servers[1].Shutdown(), <-done, <-done)
	}
	return nil
}

// Stop stops the server until Restart: the system refuses queries. It does nothing if the
// server is stopped already.
func (ns *Server) Stop() error {
	if ns.stop == nil {
		return nil
	}
	err := ns.stop()
	ns.stop = nil
	return err
}

// Close ends the server and gives up its port.
func (ns *Server) Close() error {
	err := ns.Stop()
	if ns.reserved != nil {
		err = errors.Join(err, ns.reserved.Release())
	}
	return err
}

// udpTimeout is how long listenUDP waits for a port that is taken.
const udpTimeout = 10 * time.Second

// listenUDP waits for the port. A reservation holds for TCP only, so the system may lend the port to a DNS
// query of another process.
func listenUDP(addr string) (net.PacketConn, error) {
	for deadline := time.Now().Add(udpTimeout); ; time.Sleep(10 * time.Millisecond) {
		packets, err := net.ListenPacket("udp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return packets, err
		}
	}
}

// ServeDNS answers a query.
func (ns *Server) ServeDNS(w miekg.ResponseWriter, query *miekg.Msg) {
	q := query.Question[0]
	key := strings.ToLower(q.Name) + " " + miekg.TypeToString[q.Qtype]
	reply := new(miekg.Msg).SetReply(query)
	reply.Authoritative = true
	ns.mu.Lock()
	ns.queries[key]++
	if ns.onQuery != nil {
		ns.onQuery(time.Now())
	}
	now := ns.behaviour
	for domain, m := range ns.behaviours {
		if miekg.IsSubDomain(domain, q.Name) {
			now = m
		}
	}
	reply.Answer = ns.records[key]
	if ns.additionals {
		reply.Extra = ns.targetsLocked(reply.Answer)
	}
	ns.mu.Unlock()
	_, overTCP := w.RemoteAddr().(*net.TCPAddr)
	if now == Slow {
		time.Sleep(SlowFor)
	}
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
	case now == Truncated && !overTCP:
		reply.Truncated, reply.Answer, reply.Extra = true, nil, nil
	case len(reply.Answer) == 0 && !ns.exists(q.Name):
		reply.SetRcode(query, miekg.RcodeNameError)
	}
	if !overTCP {
		size := miekg.MinMsgSize
		if opt := query.IsEdns0(); opt != nil {
			size = int(opt.UDPSize())
		}
		reply.Truncate(size)
	}
	_ = w.WriteMsg(reply) // the client may be gone
}

// targetsLocked returns the addresses of the targets of SRV records.
func (ns *Server) targetsLocked(records []miekg.RR) (addresses []miekg.RR) {
	for _, r := range records {
		if srv, ok := r.(*miekg.SRV); ok {
			addresses = append(addresses, ns.records[strings.ToLower(srv.Target)+" A"]...)
		}
	}
	return addresses
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
func (ns *Server) Set(t TB, key string, records ...string) {
	t.Helper()
	if err := ns.Put(key, records...); err != nil {
		t.Fatal(err)
	}
}

// Put is Set with an error.
func (ns *Server) Put(key string, records ...string) error {
	all, err := parse(key, records)
	if err != nil {
		return err
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.records[key] = all
	return nil
}

func parse(key string, records []string) ([]miekg.RR, error) {
	name, kind, _ := strings.Cut(key, " ")
	all := make([]miekg.RR, len(records))
	for i, r := range records {
		ttl, data, _ := strings.Cut(r, " ")
		rr, err := miekg.NewRR(strings.Join([]string{name, ttl, "IN", kind, data}, " "))
		if err != nil {
			return nil, err
		}
		all[i] = rr
	}
	return all, nil
}

// OnQuery has f called with the time of each query from now on.
func (ns *Server) OnQuery(f func(time.Time)) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.onQuery = f
}

// SendAdditionals sends the addresses of targets with SRV records, in the additional section.
func (ns *Server) SendAdditionals() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.additionals = true
}

// SetBehaviour sets how the server answers: in general, or for the names in the domains if any are given.
func (ns *Server) SetBehaviour(m Behaviour, domains ...string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for _, domain := range domains {
		ns.behaviours[domain] = m
	}
	if len(domains) == 0 {
		ns.behaviour = m
	}
}

// Asked returns how many queries there were for a name and type.
func (ns *Server) Asked(key string) int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.queries[key]
}
