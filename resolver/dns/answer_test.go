package dns

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

func TestFamilies(t *testing.T) {
	for _, c := range []struct {
		name   string
		found  []string // in the system's order of preference
		family Family
		want   string
	}{
		{"one family, sorted", []string{"10.0.0.3", "10.0.0.1", "10.0.0.2"}, FamilyAuto, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80"},
		{"no address twice", []string{"10.0.0.1", "::ffff:10.0.0.1"}, FamilyAuto, "10.0.0.1:80"},
		{"one of each is one backend", []string{"2001:db8::1", "10.0.0.1"}, FamilyAuto, "[2001:db8::1]:80,10.0.0.1:80"},
		{"the system's preference stays", []string{"10.0.0.1", "2001:db8::1"}, FamilyAuto, "10.0.0.1:80,[2001:db8::1]:80"},
		{"IPv6 preferred", []string{"2001:db8::2", "2001:db8::1", "10.0.0.1", "10.0.0.2"}, FamilyAuto, "[2001:db8::1]:80 [2001:db8::2]:80"},
		{"IPv4 preferred", []string{"10.0.0.2", "2001:db8::1", "10.0.0.1", "2001:db8::2"}, FamilyAuto, "10.0.0.1:80 10.0.0.2:80"},
		{"unequal numbers", []string{"10.0.0.2", "2001:db8::1", "10.0.0.1"}, FamilyAuto, "10.0.0.1:80 10.0.0.2:80"},
		{"both", []string{"2001:db8::2", "10.0.0.1", "2001:db8::1"}, FamilyBoth, "10.0.0.1:80 [2001:db8::1]:80 [2001:db8::2]:80"},
		{"both, one of each", []string{"2001:db8::2", "10.0.0.1"}, FamilyBoth, "10.0.0.1:80 [2001:db8::2]:80"},
		{"nothing", nil, FamilyAuto, ""},
	} {
		got := newAddresses(parse(c.found...)).backends(c.family)
		assert.Equal(t, c.want, listed(answer{backends: got}), c.name)
	}
}

// The error of a lookup omits what changes with each attempt.
func TestExplain(t *testing.T) {
	host, srv := question{name: "svc"}, question{server: "10.0.0.10:53", name: "_grpc._tcp.svc", srv: true}
	for _, c := range []struct {
		q    question
		err  error
		want string
	}{
		{host, &net.DNSError{Err: "read udp 10.1.1.1:4242->10.0.0.9:53: i/o timeout", Name: "svc", Server: "10.0.0.9:53", IsTimeout: true}, `looking up the addresses of "svc": no answer in time (DNS server 10.0.0.9:53)`},
		{host, &net.DNSError{Err: "read udp [::1]:4242->[::1]:53: read: connection refused", Name: "svc", Server: "[::1]:53"}, `looking up the addresses of "svc": read: connection refused (DNS server [::1]:53)`},
		{srv, &net.DNSError{Err: "server misbehaving", Name: "a.svc.", Server: "192.0.2.1:53"}, `looking up the SRV records of "_grpc._tcp.svc": "a.svc.": server misbehaving (DNS server 10.0.0.10:53)`},
		{host, &net.DNSError{Err: "SERVFAIL", Name: "svc.corp.test."}, `looking up the addresses of "svc": "svc.corp.test.": SERVFAIL`},
		{srv, notFound("_grpc._tcp.svc", "usable SRV"), `"_grpc._tcp.svc" has no SRV records: no usable SRV records (DNS server 10.0.0.10:53)`},
	} {
		assert.Equal(t, c.want, explain(c.q, c.err))
	}
}

// Any host can send packets to a client; only the reply to its query counts.
func TestRecorderIgnoresForeignMessages(t *testing.T) {
	name := dnsmessage.MustNewName("svc.test.")
	query := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	reply := func(change func(m *dnsmessage.Message)) []byte {
		m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, Response: true}, Questions: append([]dnsmessage.Question(nil), query.Questions...)}
		m.Answers = []dnsmessage.Resource{addr("svc.test.", "10.0.0.1", 5)}
		change(&m)
		b, err := m.Pack()
		require.NoError(t, err)
		return b
	}
	asked, err := query.Pack()
	require.NoError(t, err)
	good := reply(func(*dnsmessage.Message) {})
	recorder := newRecorder()
	for _, b := range [][]byte{
		nil,
		{1},
		good[:11], asked,
		reply(func(m *dnsmessage.Message) { m.ID = 8 }),
		reply(func(m *dnsmessage.Message) { m.Response = false }),
		reply(func(m *dnsmessage.Message) { m.Questions[0].Type = dnsmessage.TypeAAAA }),
		reply(func(m *dnsmessage.Message) { m.Questions[0].Name = dnsmessage.MustNewName("other.test.") }),
		reply(func(m *dnsmessage.Message) { m.Questions = nil }),
		reply(func(m *dnsmessage.Message) { m.Truncated = true }),
	} {
		recorder.observe(recorder.sending(asked), b)
	}
	recorder.observe(recorder.sending(nil), good)
	require.Equal(t, unknownTTL, recorder.validity())
	recorder.observe(recorder.sending(asked), good)
	require.Equal(t, 5*time.Second, recorder.validity())
	// Truncated messages do not panic.
	for i := range good {
		recorder := newRecorder()
		recorder.observe(recorder.sending(asked), good[:i])
	}
}

// A reply without records that a server has neither from its own zone nor by recursion is no answer, as package net has it.
func TestReferrals(t *testing.T) {
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("svc.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	var edns dnsmessage.Resource
	require.NoError(t, edns.Header.SetEDNS0(1232, dnsmessage.RCodeSuccess, false))
	edns.Header.Name, edns.Body = dnsmessage.MustNewName("."), &dnsmessage.OPTResource{}
	nameServer := dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("test."), Type: dnsmessage.TypeNS, Class: dnsmessage.ClassINET},
		Body:   &dnsmessage.NSResource{NS: dnsmessage.MustNewName("ns.test.")},
	}
	for _, c := range []struct {
		answers, authorities, additionals []dnsmessage.Resource
		recursion, answered               bool
	}{
		{nil, nil, nil, false, false},
		{nil, nil, nil, true, true},
		{nil, nil, []dnsmessage.Resource{edns}, false, true},
		{[]dnsmessage.Resource{alias("svc.test.", "a.test.", 5)}, nil, nil, false, true},
		{nil, []dnsmessage.Resource{nameServer}, []dnsmessage.Resource{edns}, false, false},
	} {
		m.Response, m.RecursionAvailable, m.Answers, m.Authorities, m.Additionals = true, c.recursion, c.answers, c.authorities, c.additionals
		b, err := m.Pack()
		require.NoError(t, err)
		recorder := newRecorder()
		recorder.observe(recorder.sending(b), b)
		require.Equal(t, c.answered, recorder.incomplete("") == nil, c)
	}
}

// A silent server is skipped while another one answers; from time to time one query tries it.
func TestSilentServersAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, second = "udp 192.0.2.1:53", "udp 192.0.2.2:53"
		var s servers
		require.False(t, s.passOver(first))
		s.wasSilent(first)
		require.False(t, s.passOver(first), "no other server is known to answer")
		s.answered(second, true)
		require.True(t, s.passOver(first))
		require.False(t, s.passOver(second))

		time.Sleep(silentFor)
		require.False(t, s.passOver(first), "it is tried")
		require.True(t, s.passOver(first), "by one query")
		s.wasSilent(first)
		require.True(t, s.passOver(first))

		s.wasSilent(second)
		require.False(t, s.passOver(first), "no server answers")
		require.False(t, s.passOver(second))
		s.answered(first, true)
		require.True(t, s.passOver(second))
		s.forget(time.Now())
		require.False(t, s.passOver(second))

		s.wasSilent(first)
		s.answered(second, true)
		s.answered(first, true)
		require.False(t, s.passOver(first))
	})
}

// After a lookup that no server answered, the servers that there are share the timeout of the next one, for as long as
// their answers are slow.
func TestSlowServersGetMoreTime(t *testing.T) {
	var s servers
	failed := func(silent ...string) time.Duration {
		for _, server := range silent {
			s.wasSilent(server)
		}
		began := time.Now()
		s.forget(began)
		s.forget(began.Add(-time.Second)) // of a lookup that ran beside it
		return s.perServer(6 * time.Second)
	}
	require.Equal(t, 2*time.Second, failed(), "a server has answered that it has failed")
	require.Equal(t, 6*time.Second, failed("a"))
	require.Equal(t, 2*time.Second, failed("a"), "a search domain may have used up the time")
	require.Equal(t, 3*time.Second, failed("a", "b"))
	s.answered("b", false)
	require.Equal(t, 3*time.Second, s.perServer(6*time.Second))
	s.answered("b", true)
	require.Equal(t, 2*time.Second, s.perServer(6*time.Second))
	require.Equal(t, 2*time.Second, failed("a"), "another one has answered")
	require.Equal(t, 2*time.Second, failed("a", "b", "c", "d"))
}

// No message of a server makes the recorder panic.
func FuzzRecorder(f *testing.F) {
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("_a._tcp.test."), Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET}},
	}
	packed, err := query.Pack()
	require.NoError(f, err)
	query.Response = true
	query.Answers = []dnsmessage.Resource{service("_a._tcp.test.", "b.test.", 1, 30)}
	query.Additionals = []dnsmessage.Resource{addr("b.test.", "10.0.0.1", 5), addr("b.test.", "2001:db8::1", 5)}
	reply, err := query.Pack()
	require.NoError(f, err)
	f.Add(reply)
	f.Fuzz(func(t *testing.T, b []byte) {
		recorder := newRecorder()
		recorder.observe(recorder.sending(packed), b)
		require.GreaterOrEqual(t, int64(recorder.validity()), int64(0))
		_ = recorder.incomplete("")
		recorder.hasNoRecords("_a._tcp.test.")
		recorder.failedFamily()
	})
}
