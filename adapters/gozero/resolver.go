package gozero

import (
	"errors"
	"net/url"
	"strings"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/resolver/etcd"
)

// NewResolver returns a builder for the targets that zrpc makes of an EtcdConf, "etcd:///host:port,…?key=users.rpc", and for
// "etcd:///users.rpc". The hosts are ignored: client is that of the cluster. Config.Decode is the package's; for the rest, and
// for what happens in an outage, see resolver/etcd. Unlike go-zero's own it gives a channel all servers, and not 32 of them.
//
// The client must stay open for as long as channels use it. The error is that of etcd.NewBuilder.
func NewResolver(client *clientv3.Client, cfg etcd.Config) (resolver.Builder, error) {
	cfg.Decode = func(value []byte) (string, any, error) {
		if len(value) == 0 {
			return "", nil, errors.New("the value is no address: it is empty")
		}
		return string(value), nil, nil
	}
	b, err := etcd.NewBuilder(client, cfg)
	if err != nil {
		return nil, err
	}
	return builder{b}, nil
}

type builder struct{ resolver.Builder }

// Build makes a target of resolver/etcd of one of go-zero's.
func (b builder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	key := target.URL.Query().Get("key")
	if key == "" {
		key = strings.Trim(target.URL.Path, "/")
	}
	target.URL = url.URL{Scheme: etcd.Scheme, Path: "/" + key}
	return b.Builder.Build(target, conn{cc}, opts)
}

// conn passes endpoints also as addresses, which are what go-zero's load-balancing policies read.
type conn struct{ resolver.ClientConn }

func (c conn) UpdateState(s resolver.State) error {
	for _, ep := range s.Endpoints {
		s.Addresses = append(s.Addresses, ep.Addresses...)
	}
	return c.ClientConn.UpdateState(s)
}
