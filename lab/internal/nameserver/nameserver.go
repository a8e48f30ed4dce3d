// Package nameserver is a DNS server for tests and soaks.
package nameserver

import (
	"cmp"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/quorate/quorate/internal/fatal"
)

// Behaviour is how a DNS server answers.
type Behaviour int

// The behaviours of a Server.
const (
	WellBehaved Behaviour = iota
	Failing               // SERVFAIL
	Refusing              // REFUSED
	Silent
	Foreign // it answers another query than the one it received
)

// Server is a DNS server with UDP and TCP on the same port. It sends the addresses of the targets of SRV records with them.
type Server struct {
	Addr string

	servers [2]*miekg.Server
	served  sync.WaitGroup

	mu         sync.Mutex
	behaviours map[string]Behaviour  // by domain, for the names below it
	records    map[string][]miekg.RR // by name and type, like "svc.test. A"
	queries    map[string]int        // by name and type
	onQuery    func(time.Time)
}

// New runs a server until Close. If addr is "", it listens on a free port of 127.0.0.1. An error ends it, see package fatal.
func New(addr string) *Server {
	listener, packets, err := listen(addr)
	fatal.If(err)
	ns := &Server{
		Addr: listener.Addr().String(), onQuery: func(time.Time) {},
		behaviours: map[string]Behaviour{}, records: map[string][]miekg.RR{}, queries: map[string]int{},
	}
	ns.servers = [2]*miekg.Server{{PacketConn: packets, Handler: ns}, {Listener: listener, Handler: ns}}
	for _, s := range ns.servers {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		ns.served.Go(func() { _ = s.ActivateAndServe() }) // until Close
		<-started
	}
	return ns
}

// listen takes a port for TCP and UDP. One that is free for the one may be taken for the other.
func listen(addr string) (listener net.Listener, packets net.PacketConn, err error) {
	for range 10 {
		if listener, err = net.Listen("tcp", cmp.Or(addr, "127.0.0.1:0")); err != nil {
			return nil, nil, err
		}
		if packets, err = net.ListenPacket("udp", listener.Addr().String()); err == nil {
			return listener, packets, nil
		}
		_ = listener.Close()
	}
	return nil, nil, err
}

// Close ends the server.
func (ns *Server) Close() error {
	defer ns.served.Wait()
	return errors.Join(ns.servers[0].Shutdown(), ns.servers[1].Shutdown())
}

// ServeDNS answers a query.
func (ns *Server) ServeDNS(w miekg.ResponseWriter, query *miekg.Msg) {
	ns.mu.Lock()
	reply := ns.replyLocked(query)
	ns.mu.Unlock()
	if reply == nil {
		return
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

// replyLocked returns the reply to a query, nil for none.
func (ns *Server) replyLocked(query *miekg.Msg) *miekg.Msg {
	q := query.Question[0]
	name := strings.ToLower(q.Name)
	key := name + " " + miekg.TypeToString[q.Qtype]
	ns.queries[key]++
	ns.onQuery(time.Now())
	reply := new(miekg.Msg).SetReply(query)
	reply.Authoritative = true
	switch ns.behaviourLocked(name) {
	case Silent:
		return nil
	case Failing:
		return reply.SetRcode(query, miekg.RcodeServerFailure)
	case Refusing:
		return reply.SetRcode(query, miekg.RcodeRefused)
	case Foreign:
		reply.Question[0].Name = "foreign.test."
		reply.Answer = parse(q.Name+" A", "1 192.0.2.66")
		return reply
	case WellBehaved:
	}
	reply.Answer = ns.records[key]
	for _, r := range reply.Answer {
		if srv, ok := r.(*miekg.SRV); ok {
			reply.Extra = append(reply.Extra, ns.records[strings.ToLower(srv.Target)+" A"]...)
		}
	}
	if len(reply.Answer) == 0 && !ns.existsLocked(name) {
		reply.SetRcode(query, miekg.RcodeNameError)
	}
	return reply
}

func (ns *Server) behaviourLocked(name string) Behaviour {
	for domain, b := range ns.behaviours {
		if miekg.IsSubDomain(domain, name) && b != WellBehaved {
			return b
		}
	}
	return WellBehaved
}

func (ns *Server) existsLocked(name string) bool {
	for key, records := range ns.records {
		if len(records) > 0 && strings.HasPrefix(key, name+" ") {
			return true
		}
	}
	return false
}

// Set replaces the records of a name and type, "svc.test. A" for instance; each is written
// as in a zone file, after the type: "5 127.0.0.1" is a TTL and an address. It panics if one is malformed.
func (ns *Server) Set(key string, records ...string) {
	all := parse(key, records...)
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.records[key] = all
}

func parse(key string, records ...string) []miekg.RR {
	name, kind, _ := strings.Cut(key, " ")
	all := make([]miekg.RR, len(records))
	for i, r := range records {
		ttl, data, _ := strings.Cut(r, " ")
		rr, err := miekg.NewRR(strings.Join([]string{name, ttl, "IN", kind, data}, " "))
		if err != nil {
			panic(err)
		}
		all[i] = rr
	}
	return all
}

// OnQuery has f called with the time of each query from now on.
func (ns *Server) OnQuery(f func(time.Time)) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.onQuery = f
}

// SetBehaviour sets how the server answers for the names in a domain, "." for all.
func (ns *Server) SetBehaviour(b Behaviour, domain string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.behaviours[domain] = b
}

// Asked returns how many queries there were for a name and type.
func (ns *Server) Asked(key string) int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.queries[key]
}
