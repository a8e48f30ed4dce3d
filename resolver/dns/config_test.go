package dns

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigDefaults(t *testing.T) {
	require.Equal(t, 200*time.Millisecond, Config{Interval: 200 * time.Millisecond}.withDefaults().MinInterval)
	require.Equal(t, "dns", newBuilder(t, Config{}).Scheme())
	require.Equal(t, "qdns", newBuilder(t, Config{Scheme: "qdns"}).Scheme())
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Scheme: "DNS"}, `dns: Config.Scheme is "DNS"; it has to begin with a lower-case letter, followed by those, digits, '+', '-' or '.'`},
		{Config{Server: "10.0.0.10:dns:53"}, `dns: Config.Server: DNS server "10.0.0.10:dns:53": "10.0.0.10:dns:53" is not host:port; an IPv6 address with a port needs brackets: [::1]:53`},
		{Config{Server: "a b"}, `dns: Config.Server: DNS server "a b": "a b" is not a domain name: ' ' is not allowed; international names are written in Punycode`},
		{Config{Server: "10.0.0.10", Resolver: newScript()}, `dns: Config.Server ("10.0.0.10") and Config.Resolver exclude each other; remove one`},
		{Config{Interval: 5}, `dns: Config.Interval is 5ns; it has to be at least 10ms, or 0 for 5s`},
		{Config{Interval: -time.Second}, `dns: Config.Interval is -1s; it has to be at least 10ms, or 0 for 5s`},
		{Config{MinInterval: 6 * time.Second}, `dns: Config.MinInterval is 6s; it has to be at least 10ms and at most Interval (5s), or 0 for 1s`},
		{Config{MinInterval: time.Millisecond}, `dns: Config.MinInterval is 1ms; it has to be at least 10ms and at most Interval (5s), or 0 for 1s`},
		{Config{Timeout: -1}, `dns: Config.Timeout is -1ns; it has to be at least 10ms, or 0 for 5s`},
		{Config{Family: 9}, `dns: Config.Family is 9, which is not a Family of this package`},
	} {
		_, err := NewBuilder(c.cfg)
		assert.EqualError(t, err, c.want)
	}
}

func TestFamilyNames(t *testing.T) {
	for f, want := range map[Family]string{FamilyAuto: "auto", FamilyIPv4: "IPv4", FamilyIPv6: "IPv6", FamilyBoth: "both"} {
		require.Equal(t, want, f.String())
	}
}
