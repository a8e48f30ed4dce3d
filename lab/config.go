package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Defaults and limits of a Config.
const (
	DefaultMembers  = 3
	DefaultElection = 500 * time.Millisecond

	// maxMembers is above the seven that etcd advises as the largest cluster, and
	// what one machine can run.
	maxMembers = 9
)

// Config describes a cluster. Its zero value is three members of the etcd that is
// built in.
type Config struct {
	// Members is the number of members, 1 to 9. Default 3.
	Members int
	// Election is the election timeout, in whole milliseconds. Default 500 ms, half of etcd's own
	// default, so that a lost leader is replaced in about a second. The leader's heartbeats are a tenth of it apart.
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
	// "--quota-backend-bytes=…". They override those that the lab chooses, but
	// must not change names, URLs and the data directory.
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

// complete returns the configuration with defaults in place of zero values, or an
// error that names every field that is wrong.
func (c Config) complete() (Config, error) {
	if c.Command != nil {
		c.Members = cmp.Or(c.Members, 1)
	}
	c.Members = cmp.Or(c.Members, DefaultMembers)
	c.Election = cmp.Or(c.Election, DefaultElection)
	c.Dir = cmp.Or(c.Dir, os.TempDir())
	c.StartTimeout = cmp.Or(c.StartTimeout, time.Minute)
	var wrong []error
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf("lab: "+format, args...)) }

	if c.Members < 1 || c.Members > maxMembers {
		report("Config.Members is %d, want 1 to %d", c.Members, maxMembers)
	}
	if c.ClientCertAuth && !c.TLS {
		report("Config.ClientCertAuth is set without Config.TLS")
	}
	if c.Command != nil && (c.Members != 1 || c.Args != nil) {
		report("Config.Command excludes Config.Args and more than one of Config.Members")
	}
	if c.Binary == "" && !mainCalled.Load() {
		report("a member is this program started again: call lab.Main() first in main or TestMain, or set Config.Binary")
	}
	return c, errors.Join(wrong...)
}
