package lab

import (
	"context"
	"errors"
	"strings"
)

// StartProxy starts etcd's gRPC proxy ("etcd grpc-proxy start", of the executable that the members run) in front of all
// members of the cluster, which it reaches through their links. It returns a cluster whose only member is the proxy,
// with a link to its clients; it can be killed and restarted like a member. That cluster must be closed, too. With tls the
// proxy serves over TLS, with certificates of its own cluster.
//
// StartProxy refuses a cluster with Config.TLS: the proxy requires a client certificate without a common name there, and
// the lab's has one.
func StartProxy(ctx context.Context, cluster *Cluster, tls bool) (*Cluster, error) {
	if cluster.cfg.TLS {
		return nil, errors.New("lab: a gRPC proxy cannot reach a cluster with Config.TLS: start the cluster without it")
	}
	return Start(ctx, Config{
		Binary: cluster.cfg.Binary, Dir: cluster.cfg.Dir, TLS: tls,
		Command: func(l Launch) []string {
			flags := []string{
				"grpc-proxy", "start", "--endpoints=" + strings.Join(cluster.Endpoints(), ","),
				"--listen-addr=" + l.Address, "--advertise-client-url=" + l.Endpoint, "--data-dir=" + l.Dir,
			}
			if tls {
				flags = append(flags, "--cert-file="+l.TLS.ServerCert, "--key-file="+l.TLS.ServerKey, "--trusted-ca-file="+l.TLS.CA)
			}
			return flags
		},
	})
}
