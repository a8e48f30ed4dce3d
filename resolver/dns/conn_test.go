package dns

import (
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/feed"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
)

// testTimeout is far longer than any of these tests.
const testTimeout = 5 * time.Minute

// wireServer is a DNS server on a UDP and a TCP port of the same number.
type wireServer struct {
	addr  string
	mu    sync.Mutex                                                // held during reply
	reply func(q dnsmessage.Question, tcp bool) *dnsmessage.Message // nil: no reply
	asked map[string]bool                                           // the names of all questions
	conns sync.WaitGroup
}

// zone has replies by type and name, as "TypeA svc.test.". Other names have no records.
type zone map[string]*dnsmessage.Message

func (z zone) reply(q dnsmessage.Question, _ bool) *dnsmessage.Message {
	if m := z[q.Type.String()+" "+q.Name.String()]; m != nil {
		return m
	}
	return &dnsmessage.Message{}
}

func answers(records ...dnsmessage.Resource) *dnsmessage.Message {
	return &dnsmessage.Message{Answers: records}
}

func startWireServer(t *testing.T, reply func(q dnsmessage.Question, tcp bool) *dnsmessage.Message) *wireServer {
	t.Helper()
	packets, listener := listen(t)
	s := &wireServer{addr: packets.LocalAddr().String(), reply: reply, asked: map[string]bool{}}
	s.conns.Go(func() { s.servePackets(packets) })
	s.conns.Go(func() { s.serveStreams(listener) })
	t.Cleanup(func() {
		_ = packets.Close()
		_ = listener.Close()
		s.conns.Wait()
	})
	return s
}

// listen finds a port that is free for UDP and TCP.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 100 {
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		if listener, err := net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			return packets, listener
		}
		_ = packets.Close()
	}
	require.FailNow(t, "no port is free for both UDP and TCP")
	return nil, nil
}

func (s *wireServer) servePackets(conn net.PacketConn) {
	b := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		if out := s.answer(b[:n], false); out != nil {
			_, _ = conn.WriteTo(out, from)
		}
	}
}

func (s *wireServer) serveStreams(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		s.conns.Go(func() {
			defer conn.Close()
			var size [2]byte
			for {
				if _, err := io.ReadFull(conn, size[:]); err != nil {
					return
				}
				b := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(conn, b); err != nil {
					return
				}
				out := s.answer(b, true)
				for _, part := range [][]byte{binary.BigEndian.AppendUint16(nil, uint16(len(out))), out[:5], out[5:]} {
					_, _ = conn.Write(part) // as TCP may cut it
				}
			}
		})
	}
}

func (s *wireServer) answer(b []byte, tcp bool) []byte {
	var m dnsmessage.Message
	if m.Unpack(b) != nil || len(m.Questions) != 1 {
		return nil
	}
	s.mu.Lock()
	s.asked[m.Questions[0].Name.String()] = true
	reply := s.reply(m.Questions[0], tcp)
	s.mu.Unlock()
	if reply == nil {
		return nil
	}
	sent := *reply
	sent.ID, sent.Response, sent.RecursionAvailable = m.ID, true, true
	sent.Questions = m.Questions
	out, err := sent.Pack()
	if err != nil {
		panic(err)
	}
	return out
}

func (s *wireServer) client(t *testing.T, cfg Config) *client {
	t.Helper()
	cfg.Server = s.addr
	c, err := newClient(cfg)
	require.NoError(t, err)
	return c
}

func (s *wireServer) ask(t *testing.T, q question, before ...backend) (answer, error) {
	t.Helper()
	q.server = s.addr
	return s.client(t, Config{}).ask(grpctest.Within(t, testTimeout), q, known{backends: before})
}

func header(name string, ttl uint32) dnsmessage.ResourceHeader {
	return dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name), Class: dnsmessage.ClassINET, TTL: ttl}
}

func addr(name, a string, ttl uint32) dnsmessage.Resource {
	parsed := netip.MustParseAddr(a)
	if parsed.Is4() {
		return dnsmessage.Resource{Header: header(name, ttl), Body: &dnsmessage.AResource{A: parsed.As4()}}
	}
	return dnsmessage.Resource{Header: header(name, ttl), Body: &dnsmessage.AAAAResource{AAAA: parsed.As16()}}
}

func alias(name, to string, ttl uint32) dnsmessage.Resource {
	return dnsmessage.Resource{Header: header(name, ttl), Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(to)}}
}

func service(name, target string, port uint16, ttl uint32) dnsmessage.Resource {
	return dnsmessage.Resource{Header: header(name, ttl), Body: &dnsmessage.SRVResource{Target: dnsmessage.MustNewName(target), Port: port}}
}

func fails(code dnsmessage.RCode) *dnsmessage.Message {
	return &dnsmessage.Message{Header: dnsmessage.Header{RCode: code}}
}

// listed returns the addresses of an answer, with the port 80 unless SRV records have the ports.
func listed(a answer) string {
	cc := portedConn{grpctest.NewChannel(), 80}
	if len(a.backends) > 0 && a.backends[0].port != 0 {
		cc.port = 0
	}
	_ = cc.UpdateState(resolver.State{Endpoints: endpoints(a.backends)})
	return strings.Join(cc.ClientConn.(*grpctest.Channel).Latest(), " ")
}

// The TTL is the minimum over all records of all answers.
func TestTTL(t *testing.T) {
	s := startWireServer(t, zone{
		"TypeA plain.test.":    answers(addr("plain.test.", "10.0.0.2", 30), addr("plain.test.", "10.0.0.1", 20)),
		"TypeA alias.test.":    answers(alias("alias.test.", "plain.test.", 7), addr("plain.test.", "10.0.0.1", 20)),
		"TypeAAAA alias.test.": answers(alias("alias.test.", "plain.test.", 3)),
		"TypeA zero.test.":     answers(addr("zero.test.", "10.0.0.1", 0)),
		"TypeA dual.test.":     answers(addr("dual.test.", "127.0.0.1", 30)),
		"TypeAAAA dual.test.":  answers(addr("dual.test.", "::1", 12)),
	}.reply)
	for name, want := range map[string]struct {
		lists []string
		ttl   time.Duration
	}{
		"plain.test.": {[]string{"10.0.0.1:80 10.0.0.2:80"}, 20 * time.Second},
		"alias.test.": {[]string{"10.0.0.1:80"}, 7 * time.Second},
		"zero.test.":  {[]string{"10.0.0.1:80"}, 0},
		"dual.test.":  {[]string{"127.0.0.1:80,[::1]:80", "[::1]:80,127.0.0.1:80"}, 12 * time.Second}, // as the system prefers
	} {
		a, err := s.ask(t, question{name: name})
		require.NoError(t, err, name)
		require.Contains(t, want.lists, listed(a), name)
		require.Equal(t, want.ttl, a.ttl, name)
	}
}

// A reply that does not fit into a packet comes over TCP, and its TTLs count.
func TestTCP(t *testing.T) {
	s := startWireServer(t, func(q dnsmessage.Question, tcp bool) *dnsmessage.Message {
		m := &dnsmessage.Message{}
		if q.Type != dnsmessage.TypeA {
			return m
		}
		if !tcp {
			m.Truncated = true
			m.Answers = []dnsmessage.Resource{addr(q.Name.String(), "10.0.0.1", 1)}
			return m
		}
		for i := range 200 {
			m.Answers = append(m.Answers, addr(q.Name.String(), netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String(), 60))
		}
		return m
	})
	a, err := s.ask(t, question{name: "big.test."})
	require.NoError(t, err)
	require.Len(t, a.backends, 200)
	require.Equal(t, time.Minute, a.ttl)
}

// Addresses sent with SRV records make lookups of the targets unnecessary, if they cover all
// targets, and the known addresses of each: a server omits what does not fit into the message.
func TestGlue(t *testing.T) {
	records := func(name string) []dnsmessage.Resource {
		return []dnsmessage.Resource{service(name, "A.test.", 1, 30), service(name, "b.test.", 2, 30)}
	}
	first := addr("a.test.", "10.0.0.1", 30)
	s := startWireServer(t, zone{
		"TypeSRV _all._tcp.test.": {Answers: records("_all._tcp.test."), Additionals: []dnsmessage.Resource{
			first, addr("B.test.", "2001:db8::2", 8), addr("b.test.", "10.0.0.2", 30),
		}},
		"TypeSRV _half._tcp.test.": {Answers: records("_half._tcp.test."), Additionals: []dnsmessage.Resource{first, addr("b.test.", "10.0.0.2", 30)}},
		"TypeSRV _some._tcp.test.": {Answers: records("_some._tcp.test."), Additionals: []dnsmessage.Resource{first}},
		"TypeA a.test.":            answers(first),
		"TypeA b.test.":            answers(addr("b.test.", "10.0.0.2", 9)),
		"TypeAAAA b.test.":         answers(addr("b.test.", "2001:db8::2", 30)),
	}.reply)
	all, err := s.ask(t, question{name: "_all._tcp.test.", srv: true})
	require.NoError(t, err)
	for _, c := range []struct {
		name   string
		before []backend
		list   string
		ttl    time.Duration
		asked  []string
	}{
		{"_all._tcp.test.", nil, "10.0.0.1:1 10.0.0.2:2,[2001:db8::2]:2", 8 * time.Second, nil},
		{"_half._tcp.test.", nil, "10.0.0.1:1 10.0.0.2:2", 30 * time.Second, nil},
		{"_half._tcp.test.", all.backends, "10.0.0.1:1 10.0.0.2:2,[2001:db8::2]:2", 9 * time.Second, []string{"b.test."}},
		{"_some._tcp.test.", nil, "10.0.0.1:1 10.0.0.2:2,[2001:db8::2]:2", 9 * time.Second, []string{"b.test."}},
	} {
		s.mu.Lock()
		s.asked = map[string]bool{}
		s.mu.Unlock()
		a, err := s.ask(t, question{name: c.name, srv: true}, c.before...)
		require.NoError(t, err)
		require.Equal(t, c.list, listed(a), c.name)
		require.Equal(t, c.ttl, a.ttl, c.name)
		s.mu.Lock()
		delete(s.asked, c.name)
		require.ElementsMatch(t, c.asked, slices.Collect(maps.Keys(s.asked)), c.name)
		s.mu.Unlock()
	}
}

// An empty answer is valid for the TTL of the SOA record (RFC 2308): until then caches repeat it, which confirms nothing.
func TestNegativeTTL(t *testing.T) {
	soa := dnsmessage.Resource{Header: header("test.", 60), Body: &dnsmessage.SOAResource{
		NS: dnsmessage.MustNewName("ns.test."), MBox: dnsmessage.MustNewName("h.test."), MinTTL: 90,
	}}
	ns := dnsmessage.Resource{Header: header("test.", 0), Body: &dnsmessage.NSResource{NS: dnsmessage.MustNewName("ns.test.")}}
	code := dnsmessage.RCodeNameError
	s := startWireServer(t, func(q dnsmessage.Question, _ bool) *dnsmessage.Message {
		m := &dnsmessage.Message{Header: dnsmessage.Header{RCode: code}, Authorities: []dnsmessage.Resource{ns, soa}}
		if code == dnsmessage.RCodeSuccess && q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{addr("svc.test.", "10.0.0.1", 2)}
		}
		return m
	})
	answer := func(c dnsmessage.RCode) {
		s.mu.Lock()
		defer s.mu.Unlock()
		code = c
	}
	a, err := s.ask(t, question{name: "svc.test."})
	require.True(t, isNotFound(err))
	require.Equal(t, time.Minute, a.ttl)

	c := s.client(t, Config{})
	p := &poller{client: c, q: question{server: s.addr, name: "svc.test."}, state: state{record: newRecord(c.Config)}}
	p.Feed = feed.New(&p.mu, p.publishedLocked)
	answer(dnsmessage.RCodeSuccess)
	p.poll(t.Context())
	require.InDelta(t, 2100*time.Millisecond, p.poll(t.Context()), float64(100*time.Millisecond))
	answer(dnsmessage.RCodeNameError)
	p.poll(t.Context())
	require.Equal(t, time.Minute, p.state.confirm.Sub(p.state.ended))
}

// A family whose lookup fails is missing only if addresses of it are known.
func TestHalfAnAnswer(t *testing.T) {
	for broken, want := range map[string]struct {
		list    string
		missing Family
	}{
		"TypeAAAA svc.test.": {"10.0.0.1:80", FamilyIPv6},
		"TypeA svc.test.":    {"[2001:db8::1]:80", FamilyIPv4},
	} {
		z := zone{"TypeA svc.test.": answers(addr("svc.test.", "10.0.0.1", 30)), "TypeAAAA svc.test.": answers(addr("svc.test.", "2001:db8::1", 30))}
		z[broken] = fails(dnsmessage.RCodeServerFailure)
		a, err := startWireServer(t, z.reply).ask(t, question{name: "svc.test."})
		require.NoError(t, err)
		require.Equal(t, want.list, listed(a))
		require.Equal(t, want.missing, a.missing)
	}
}

// A target of an SRV record keeps only the addresses of the family whose lookup fails, or all of them if both fail.
func TestHalfAnAnswerAboutATarget(t *testing.T) {
	q, failing := question{name: "_a._tcp.test.", srv: true}, fails(dnsmessage.RCodeServerFailure)
	z := zone{"TypeSRV _a._tcp.test.": answers(service("_a._tcp.test.", "a.test.", 1, 30))}
	s := startWireServer(t, z.reply)
	for i, c := range []struct {
		a, aaaa      *dnsmessage.Message
		before, want string
	}{
		{answers(addr("a.test.", "10.0.0.1", 30)), failing, "", "10.0.0.1:1"},
		{answers(addr("a.test.", "10.0.0.2", 30)), failing, "10.0.0.1", "10.0.0.2:1"},
		{answers(addr("a.test.", "10.0.0.2", 30)), failing, "2001:db8::1 10.0.0.1", "10.0.0.2:1,[2001:db8::1]:1"},
		{failing, answers(addr("a.test.", "2001:db8::2", 30)), "2001:db8::1 10.0.0.1", "10.0.0.1:1,[2001:db8::2]:1"},
		{failing, answers(addr("a.test.", "::ffff:10.0.0.1", 30)), "10.0.0.1 10.0.0.2", "10.0.0.1:1,10.0.0.2:1"},
		{failing, failing, "10.0.0.1 10.0.0.2", "10.0.0.1:1,10.0.0.2:1"},
	} {
		s.mu.Lock()
		z["TypeA a.test."], z["TypeAAAA a.test."] = c.a, c.aaaa
		s.mu.Unlock()
		a, err := s.ask(t, q, backend{host: "a.test.", addrs: parse(strings.Fields(c.before)...)})
		require.NoError(t, err)
		require.Equal(t, c.want, listed(a), i)
	}
}

// A search domain without a response is skipped, unless the name was found there before, or may only be there.
func TestSearchDomainWithoutAnAnswer(t *testing.T) {
	const first, second, none, silent = "svc.a.", "svc.b.", "", "no answer"
	for _, c := range []struct {
		before, first, second, found string
		err                          error
		want                         bool // the result counts
	}{
		{"", none, none, "", errNoSuchHost, true},
		{"", none, silent, "", errNoSuchHost, false},
		{first, none, silent, "", errNoSuchHost, true},
		{first, silent, none, "", errNoSuchHost, false},
		{second, silent, none, "", errNoSuchHost, true},
		{first, silent, none, second, nil, false},
		{second, silent, none, second, nil, true},
	} {
		l := &lookup{client: &client{}, recorder: newRecorder()}
		for name, reason := range map[string]string{first: c.first, second: c.second} {
			l.recorder.queries[dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA}] = reason
		}
		l.recorder.found = c.found
		require.Equal(t, c.want, l.verify(c.err, c.before) == c.err, "%+v", c)
	}
}

// REFUSED is a failure, although package net returns "no such host".
func TestFailuresOnTheWire(t *testing.T) {
	replies := map[dnsmessage.Type]dnsmessage.RCode{}
	s := startWireServer(t, func(q dnsmessage.Question, _ bool) *dnsmessage.Message {
		return fails(replies[q.Type])
	})
	for _, c := range []struct {
		a, aaaa dnsmessage.RCode
		none    bool
	}{
		{dnsmessage.RCodeNameError, dnsmessage.RCodeNameError, true},
		{dnsmessage.RCodeSuccess, dnsmessage.RCodeSuccess, true},
		{dnsmessage.RCodeServerFailure, dnsmessage.RCodeServerFailure, false},
		{dnsmessage.RCodeSuccess, dnsmessage.RCodeServerFailure, false},
		{dnsmessage.RCodeRefused, dnsmessage.RCodeRefused, false},
		{dnsmessage.RCodeNotImplemented, dnsmessage.RCodeSuccess, false},
		{dnsmessage.RCodeSuccess, dnsmessage.RCodeRefused, false},
	} {
		s.mu.Lock()
		replies[dnsmessage.TypeA], replies[dnsmessage.TypeAAAA], replies[dnsmessage.TypeSRV] = c.a, c.aaaa, c.aaaa
		s.mu.Unlock()
		_, err := s.ask(t, question{name: "svc.test."})
		require.Error(t, err)
		require.Equal(t, c.none, isNotFound(err), "%v, %v: %v", c.a, c.aaaa, err)
		_, err = s.ask(t, question{name: "_a._tcp.svc.test.", srv: true})
		require.Equal(t, c.aaaa == dnsmessage.RCodeSuccess || c.aaaa == dnsmessage.RCodeNameError, isNotFound(err), "%v: %v", c.aaaa, err)
	}
}

// A canceled lookup leaves no goroutine that waits for the server.
func TestSilentServer(t *testing.T) {
	var asked sync.Once
	reached := make(chan struct{})
	s := startWireServer(t, func(dnsmessage.Question, bool) *dnsmessage.Message {
		asked.Do(func() { close(reached) })
		return nil
	})
	r, cc := open(t, newBuilder(t, Config{Server: s.addr}), "dns:///_a._tcp.silent.test.")
	require.NoError(t, pause.Until(grpctest.Within(t, testTimeout), reached, time.Hour), "no query came")
	r.Close()
	lists, errs := cc.updates()
	require.Empty(t, lists)
	require.Empty(t, errs)

	short := s.client(t, Config{Timeout: 300 * time.Millisecond})
	_, err := short.ask(t.Context(), question{server: s.addr, name: "silent.test."}, known{})
	require.Equal(t, explain(question{server: s.addr, name: "silent.test."}, err),
		`looking up the addresses of "silent.test.": no answer in time (DNS server `+s.addr+`)`)
}

// The first server of resolv.conf(5) may never answer.
func TestQueryTimesOutBeforeItsDeadline(t *testing.T) {
	s := startWireServer(t, func(dnsmessage.Question, bool) *dnsmessage.Message { return nil })
	r, _ := s.client(t, Config{Timeout: 300 * time.Millisecond}).resolverFor(s.addr)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn, err := r.(*net.Resolver).Dial(ctx, "udp", "192.0.2.1:53")
	require.NoError(t, err)
	defer conn.Close()
	require.Implements(t, (*net.PacketConn)(nil), conn)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Hour)))
	_, err = conn.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
}
