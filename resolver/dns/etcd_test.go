package dns

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDiscoverEtcd(t *testing.T) {
	const secure, plaintext = "_etcd-client-ssl._tcp.example.com", "_etcd-client._tcp.example.com"
	records := []*net.SRV{
		srvRecord("Etcd2.example.com.", 2379, 0, 0), srvRecord("etcd1.example.com.", 2379, 0, 0),
		srvRecord("etcd0.example.com.", 2380, 1, 0), srvRecord("etcd1.example.com.", 2379, 0, 0),
	}
	https := []string{"https://etcd1.example.com.:2379", "https://etcd2.example.com.:2379", "https://etcd0.example.com.:2380"}
	for _, c := range []struct {
		name    string
		cfg     EtcdConfig
		prepare func(s *script)
		want    []string
		err     string
	}{
		{"secure", EtcdConfig{}, func(s *script) {
			s.hasSRV(secure, records...)
			s.fails(plaintext, errNoSuchHost)
		}, https, ""},
		{"plaintext", EtcdConfig{}, func(s *script) {
			s.fails(secure, errNoSuchHost)
			s.hasSRV(plaintext, records[0])
		}, []string{"http://etcd2.example.com.:2379"}, ""},
		{"both", EtcdConfig{}, func(s *script) {
			s.hasSRV(secure, records...)
			s.hasSRV(plaintext, records[0])
		}, append(https[:3:3], "http://etcd2.example.com.:2379"), ""},
		{"secure only", EtcdConfig{SecureOnly: true}, func(s *script) {
			s.hasSRV(secure, records...)
			s.hasSRV(plaintext, records[0])
		}, https, ""},
		{"name", EtcdConfig{ServiceName: "blue"}, func(s *script) {
			s.hasSRV("_etcd-client-ssl-blue._tcp.example.com", records[0])
			s.fails("_etcd-client-blue._tcp.example.com", errNoSuchHost)
		}, []string{"https://etcd2.example.com.:2379"}, ""},
		{"no plaintext because of a failure", EtcdConfig{}, func(s *script) {
			s.fails(secure, errServerFailure)
			s.hasSRV(plaintext, records[0])
		}, nil, `dns: looking up the SRV records of "_etcd-client-ssl._tcp.example.com": server misbehaving`},
		{"nothing", EtcdConfig{}, func(s *script) {
			s.fails(secure, errNoSuchHost)
			s.fails(plaintext, errNoSuchHost)
		}, nil, `dns: "_etcd-client-ssl._tcp.example.com" has no SRV records: no such host; dns: "_etcd-client._tcp.example.com" has no SRV records: no such host`},
		{"bad name", EtcdConfig{ServiceName: "a.b"}, func(*script) {}, nil, `dns: EtcdConfig.ServiceName is "a.b"; it has to be letters, digits and '-'`},
		{"bad interval", EtcdConfig{Config: Config{Interval: 1}}, func(*script) {}, nil, `dns: Config.Interval is 1ns; it has to be at least 10ms, or 0 for 5s`},
	} {
		s := newScript()
		c.prepare(s)
		c.cfg.Resolver = s
		got, err := DiscoverEtcd(t.Context(), "example.com", c.cfg)
		assert.Equal(t, c.want, got, c.name)
		if c.err == "" {
			assert.NoError(t, err, c.name)
			continue
		}
		assert.EqualError(t, err, c.err, c.name)
		assert.Equal(t, strings.Contains(c.err, "no such host"), isNotFound(err), c.name)
	}
	_, err := DiscoverEtcd(t.Context(), "", EtcdConfig{})
	require.EqualError(t, err, `dns: domain of the etcd cluster: "" is not a domain name: a label is empty`)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = DiscoverEtcd(canceled, "example.com", EtcdConfig{Config: Config{Resolver: newScript()}})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, `"_etcd-client-ssl._tcp.example.com"`)
}
