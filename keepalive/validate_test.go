package keepalive_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/keepalive"
)

func TestValidate(t *testing.T) {
	type (
		client = keepalive.Client
		server = keepalive.Server
	)
	const s = time.Second
	for name, tc := range map[string]struct {
		pair keepalive.Pair
		want []string // parts of the error; none: valid
	}{
		"zero is grpc's defaults": {pair: keepalive.Pair{}},
		"datacenter":              {pair: keepalive.Datacenter().Pair()},
		"load balancer":           {pair: keepalive.LoadBalancer().Pair()},
		"stock":                   {pair: keepalive.Stock().Pair()},
		"etcd":                    {pair: keepalive.Etcd().Pair()},

		"below grpc's floor": {
			pair: keepalive.Pair{Client: client{Time: 5 * s}, Server: server{MinTime: s}},
			want: []string{"Client.Time: 5s; grpc-go raises it to 10s"},
		},
		"negative": {
			pair: keepalive.Pair{Client: client{Time: -1, Timeout: -1}, Server: server{MinTime: -1, MaxConnectionAge: -1}, IdleTimeout: -1, LongestCall: -1},
			want: []string{"Client.Time: -1ns", "Client.Timeout: -1ns", "Server.MinTime: -1ns", "Server.MaxConnectionAge: -1ns", "IdleTimeout: -1ns", "LongestCall: -1ns"},
		},
		"too long": {
			pair: keepalive.Pair{Client: client{Time: math.MaxInt64}, Server: server{MaxConnectionAge: math.MaxInt64 - 1}},
			want: []string{"Client.Time", "Server.MaxConnectionAge", "at most 8760h0m0s"},
		},
		"too short": {
			pair: keepalive.Pair{Client: client{Time: 10 * s, Timeout: time.Millisecond}, Server: server{MinTime: s, Timeout: time.Millisecond, Time: s / 2}},
			want: []string{"Client.Timeout: 1ms; it must be at least 1s", "Server.Timeout: 1ms", "Server.Time: 500ms"},
		},
		"without pings": {
			pair: keepalive.Pair{Client: client{Timeout: 10 * s, PermitWithoutStream: true}},
			want: []string{"Client.Time is 0"},
		},
		"grace without an age": {
			pair: keepalive.Pair{Server: server{MaxConnectionAgeGrace: s}},
			want: []string{"MaxConnectionAgeGrace has no effect without Server.MaxConnectionAge"},
		},
		"grace shorter than calls": {
			pair: keepalive.Pair{Server: server{MaxConnectionAge: 60 * s, MaxConnectionAgeGrace: 10 * s}, LongestCall: 10 * s},
			want: []string{"Server.MaxConnectionAgeGrace: 10s; a call of 10s (LongestCall)", "at least 11s"},
		},
		"grace without a limit":  {pair: keepalive.Pair{Server: server{MaxConnectionAge: 60 * s}, LongestCall: 10 * s}},
		"grace as long as calls": {pair: keepalive.Pair{Server: server{MaxConnectionAge: 60 * s, MaxConnectionAgeGrace: 11 * s}, LongestCall: 10 * s}},

		"every ping too soon": {
			pair: keepalive.Pair{Client: client{Time: 10 * s}},
			want: []string{
				"while a call is under way the client pings every 10s", "every 5m0s (grpc's default Server.MinTime)", "the call fails with Unavailable",
				"set Client.Time to at least 5m0s, or Server.MinTime to at most 10s",
			},
		},
		"idle pings forbidden, others allowed": {
			pair: keepalive.Pair{Client: client{Time: 10 * s, PermitWithoutStream: true}, Server: server{MinTime: 5 * s}},
			want: []string{
				"while no call is under way", "every 2h0m0s (because Server.PermitWithoutStream is false)", "4th ping in a row, 40s after",
				"set Client.PermitWithoutStream to false, or Server.PermitWithoutStream to true",
			},
		},
		"the server's own pings come first, unless it receives something": {
			pair: keepalive.Pair{Client: client{Time: 10 * s, PermitWithoutStream: true}, Server: server{Time: 5 * s}},
			want: []string{"too_many_pings"},
		},
		"rare idle pings": {pair: keepalive.Pair{Client: client{Time: 2 * time.Hour, PermitWithoutStream: true}}},
		"exactly MinTime": {pair: keepalive.Pair{Client: client{Time: 10 * s, PermitWithoutStream: true}, Server: server{MinTime: 10 * s, PermitWithoutStream: true}}},

		"forgotten streams": {
			pair: keepalive.Pair{Client: client{Time: 330 * s}, IdleTimeout: 240 * s},
			want: []string{"IdleTimeout: a quiet stream is forgotten after 4m0s, the first ping comes after 5m30s"},
		},
		"forgotten idle connections": {
			pair: keepalive.Pair{Client: client{Time: 10 * s}, Server: server{MinTime: s}, IdleTimeout: 60 * s},
			want: []string{"IdleTimeout: a connection without calls is forgotten after 1m0s, and nothing is sent on it for 2h0m0s"},
		},
		"the server pings":          {pair: keepalive.Pair{Server: server{Time: 30 * s}, IdleTimeout: 60 * s}},
		"the server hangs up first": {pair: keepalive.Pair{Client: client{Time: 10 * s}, Server: server{MinTime: s, MaxConnectionIdle: 50 * s}, IdleTimeout: 60 * s}},
	} {
		t.Run(name, func(t *testing.T) { checkErrors(t, tc.pair, tc.want...) })
	}
}

func TestCheckNamesFieldsFirst(t *testing.T) {
	err := keepalive.Check(keepalive.Client{Time: time.Second}, keepalive.Server{Time: -1})
	require.ErrorContains(t, err, "Client.Time")
	require.ErrorContains(t, err, "Server.Time")
	var tooMany *keepalive.TooManyPingsError
	assert.NotErrorAs(t, err, &tooMany)
}
