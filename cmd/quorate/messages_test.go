package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/lab/etcdtest"
)

// A command that fails says what is wrong, and has the exit status of the help.
func TestCommandsNameTheProblem(t *testing.T) {
	t.Parallel()
	plain, secure := etcdtest.Start(t, etcdtest.Config{Members: 2}).Lab, etcdtest.Start(t, etcdtest.Config{TLS: true}).Lab
	require.NoError(t, plain.Members()[1].Kill()) // no quorum
	require.Eventually(t, func() bool {
		s, err := plain.Members()[0].Status(t.Context())
		return err == nil && s.Leader == 0
	}, testTimeout, 50*time.Millisecond)
	noQuorum, https := plain.Members()[0].Endpoint(), secure.Endpoints()[0]
	_, address, _ := strings.Cut(https, "://")
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(cli.SignalError(syscall.SIGINT))
	verify := func(endpoint, timeout string) []string {
		return []string{"verify", "--command-timeout", timeout, "--endpoints", endpoint}
	}
	for _, tt := range []struct {
		name      string
		ctx       context.Context
		args      []string
		status    int
		want, not string
	}{
		{"nobody listens", nil, []string{"top", "--once", "--interval", "10s", "--endpoints", "127.0.0.1:1"}, cli.Failure, "\n127.0.0.1:1:  nothing listens at 127.0.0.1:1", "deadline"},
		{"an unknown authority", nil, []string{"top", "--once", "--interval", "10s", "--endpoints", https}, cli.Failure, "the certificate was issued by", "deadline"},
		{"plaintext", nil, []string{"top", "--once", "--interval", "10s", "--endpoints", "http://" + address}, cli.Failure, "the server speaks TLS, and the endpoint says plaintext", "deadline"},
		{"one of two", nil, []string{"top", "--once", "--interval", "10s", "--endpoints", "127.0.0.1:1," + noQuorum}, cli.OK, "degraded", "deadline"},
		{"no quorum", nil, verify(noQuorum, "4s"), cli.Failure, `quorate: the cluster has no leader: nothing is written`, `{"level"`},
		{"an unknown authority", nil, verify(https, "10s"), cli.Failure, `quorate: the certificate was issued by "CN=quorate-lab CA", which this machine does not know`, `{"level"`},
		{"Ctrl-C", interrupted, []string{"verify", "--endpoints", noQuorum}, 130, "quorate: interrupt", "deadline"},
		{"Ctrl-C", interrupted, []string{"top", "--once", "--endpoints", noQuorum}, 130, "quorate: interrupt", ""},
		{"Ctrl-C", interrupted, []string{"doctor", "--endpoints", noQuorum}, 130, "quorate: interrupt", ""},
		{"Ctrl-C", interrupted, []string{"doctor", "--discovery-srv", "etcd.invalid"}, 130, "--discovery-srv: ", ""},
		{
			"a refused dial", nil,
			[]string{"explain", `rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`},
			cli.OK, "why              No connection was made, so nothing was sent.\na write is       not executed", "unknown",
		},
		{"endpoints as an argument", nil, []string{"doctor", "a:1", "b:1"}, cli.Failure, "endpoints are given with --endpoints a:1,b:1", "unknown command"},
		{"endpoints as an argument", nil, []string{"verify", "a:1"}, cli.Failure, "endpoints are given with --endpoints a:1", "unknown command"},
		{"no endpoint", nil, []string{"doctor", "--endpoints="}, cli.Failure, "it names no endpoint", "127.0.0.1"},
		{"a URL", nil, []string{"doctor", "--endpoints", "etcds://" + address}, cli.Negative, "the certificate was issued by", "unknown scheme"},
		{"a bare name", nil, []string{"resolve", "--once", "127.0.0.1:80"}, cli.OK, "+ 127.0.0.1:80", "scheme"},
		{"unix", nil, []string{"resolve", "--once", "unix:/run/shop.sock"}, cli.OK, "+ /run/shop.sock", "scheme"},
		{"unix", nil, []string{"doctor", "--endpoints", "unix:/nosuch.sock"}, cli.Negative, "no connection to /nosuch.sock", "scheme"},
		{"--write-out", nil, []string{"top", "-w", "json", "--interval", "10s", "--endpoints", noQuorum}, cli.OK, `"role": "no leader"`, ""},
		{"--write-out", nil, []string{"verify", "-w", "yaml"}, cli.Failure, "it must be table or json", ""},
		{"SRV", nil, []string{"doctor", "--discovery-srv", "nosuch.invalid"}, cli.Failure, "--discovery-srv: dns: ", ""},
	} {
		t.Run(tt.args[0]+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			status, stdout, stderr := clitest.Exec(ctx, newRootCommand(), tt.args...)
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout+stderr, tt.want)
			if tt.not != "" {
				assert.NotContains(t, stdout+stderr, tt.not)
			}
		})
	}
}
