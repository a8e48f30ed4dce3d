package dns

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
		{host, &net.DNSError{Err: "read udp 10.1.1.1:4242->10.0.0.9:53: i/o timeout", Name: "svc", Server: "10.0.0.9:53", IsTimeout: true}, `looking up the addresses of "svc": no answer within 5s (DNS server 10.0.0.9:53)`},
		{srv, &net.DNSError{Err: "server misbehaving", Name: "a.svc.", Server: "192.0.2.1:53"}, `looking up the SRV records of "_grpc._tcp.svc": "a.svc.": server misbehaving (DNS server 10.0.0.10:53)`},
		{host, &net.DNSError{Err: "SERVFAIL", Name: "svc.corp.test."}, `looking up the addresses of "svc": "svc.corp.test.": SERVFAIL`},
		{srv, none("_grpc._tcp.svc", "usable SRV"), `"_grpc._tcp.svc" has no SRV records: no usable SRV records (DNS server 10.0.0.10:53)`},
	} {
		assert.Equal(t, c.want, explain(c.q, 5*time.Second, c.err))
	}
}
