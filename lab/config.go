package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Defaults and limits of a Config.
const (
	DefaultMembers   = 3
	DefaultHeartbeat = 50 * time.Millisecond
	DefaultElection  = 500 * time.Millisecond

	// maxMembers is above the seven that etcd advises as the largest cluster, and
	// what one machine can run.
	maxMembers = 9
	// maxElection and electionPerHeartbeat are what etcd itself requires.
	maxElection          = 50 * time.Second
	electionPerHeartbeat = 5
)

// Config describes a cluster. Its zero value is three members of the etcd that is
// built in.
type Config struct {
	// Members is the number of members, 1 to 9. Default 3.
	Members int
	// Heartbeat is the interval of the leader's heartbeats, in whole milliseconds.
	// Default 50 ms, half of etcd's own default, so that a lost leader is replaced
	// in about a second.
	Heartbeat time.Duration
	// Election is the election timeout, in whole milliseconds, at least five
	// heartbeats. Default 500 ms.
	Election time.Duration
	// TLS makes members serve their clients over TLS, with certificates of a CA
	// made for this cluster. See Cluster.TLSFiles and Cluster.ClientTLS.
	TLS bool
	// ClientCertAuth makes members demand a client certificate of that CA. It needs
	// TLS.
	ClientCertAuth bool
	// Binary is the path of an etcd executable, 3.4 or newer, to run in place of
	// the one built in.
	Binary string
	// Command returns the arguments of the executable when that is no etcd member but
	// serves etcd's API by itself, as kine and etcd's grpc-proxy do. Members is 1 then,
	// and the cluster is ready when it answers a client: it has no leader to agree on.
	Command func(Launch) []string
	// Ready returns an error unless the server of Command, which listens at an address,
	// is ready. Default: it answers Status.
	Ready func(ctx context.Context, address string) error
	// Args are further etcd flags, such as "--auth-token=jwt,…" or
	// "--quota-backend-bytes=…". They override those that the lab chooses, except
	// the ones that make the cluster what it is (names, URLs, data directory),
	// which are refused.
	Args []string
	// Dir is the directory in which the cluster makes its data directory. Default
	// os.TempDir().
	Dir string
	// StartTimeout bounds starting, and every other wait for the cluster, when the
	// caller's context does not. Default one minute: a cluster of three takes one to two
	// seconds, and several times that under the race detector.
	StartTimeout time.Duration
}

// Launch describes to Config.Command the process to start.
type Launch struct {
	// Address is the host:port on which it shall listen for clients.
	Address string
	// Endpoint is the URL at which clients reach it through its link.
	Endpoint string
	// Dir is a directory for its data, which stays for the life of the cluster.
	Dir string
	// TLS are the files to serve with; all are empty without Config.TLS.
	TLS TLSFiles
}

// reserved are the etcd flags that only the lab may set.
var reserved = []string{
	"name", "data-dir", "wal-dir", "config-file",
	"listen-peer-urls", "listen-client-urls", "listen-client-http-urls",
	"initial-advertise-peer-urls", "advertise-client-urls",
	"initial-cluster", "initial-cluster-state", "initial-cluster-token", "force-new-cluster",
	"cert-file", "key-file", "trusted-ca-file", "client-cert-auth", "auto-tls",
	"peer-auto-tls", "peer-cert-file", "peer-key-file", "peer-trusted-ca-file", "peer-client-cert-auth",
	"heartbeat-interval", "election-timeout", "logger", "log-outputs",
}

// complete returns the configuration with defaults in place of zero values, or an
// error that names every field that is wrong.
func (c Config) complete() (Config, error) {
	if c.Command != nil {
		c.Members = cmp.Or(c.Members, 1)
	}
	c.Members = cmp.Or(c.Members, DefaultMembers)
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	c.Election = cmp.Or(c.Election, DefaultElection)
	c.Dir = cmp.Or(c.Dir, os.TempDir())
	c.StartTimeout = cmp.Or(c.StartTimeout, time.Minute)
	var wrong []error
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf("lab: "+format, args...)) }

	if c.Members < 1 || c.Members > maxMembers {
		report("Config.Members is %d, want 1 to %d", c.Members, maxMembers)
	}
	if c.Heartbeat < time.Millisecond || c.Heartbeat%time.Millisecond != 0 {
		report("Config.Heartbeat is %v, want whole milliseconds, at least one", c.Heartbeat)
	}
	if c.Election%time.Millisecond != 0 || c.Election < electionPerHeartbeat*c.Heartbeat || c.Election > maxElection {
		report("Config.Election is %v, want whole milliseconds, from %d heartbeats (%v) to %v",
			c.Election, electionPerHeartbeat, electionPerHeartbeat*c.Heartbeat, maxElection)
	}
	if c.ClientCertAuth && !c.TLS {
		report("Config.ClientCertAuth is set without Config.TLS")
	}
	if c.Command != nil && (c.Members != 1 || c.Args != nil) {
		report("Config.Command excludes Config.Args and more than one of Config.Members")
	}
	for _, arg := range c.Args {
		if name, ok := flagName(arg); ok && slices.Contains(reserved, name) {
			report("Config.Args holds %s, which the lab sets itself", arg)
		}
	}
	if c.Binary == "" && !mainCalled.Load() {
		report("a member is this program started again: call lab.Main() first in main or TestMain, or set Config.Binary")
	}
	return c, errors.Join(wrong...)
}

// flagName returns the name in a command line argument of the form -name, --name or
// --name=value.
func flagName(arg string) (string, bool) {
	name, isFlag := strings.CutPrefix(arg, "-")
	if !isFlag {
		return "", false
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
	return name, true
}
