package gozero

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/zeromicro/go-zero/core/discov"
	"github.com/zeromicro/go-zero/core/netx"
	"github.com/zeromicro/go-zero/core/proc"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/resolver/etcd"
)

// withdrawTimeout bounds the withdrawal while the program ends.
const withdrawTimeout = 3 * time.Second

// NewClient returns a client of the cluster in go-zero's configuration, with its hosts, user and TLS files. Everything else
// is that of base. The error is that of clientv3.New, or of a file.
func NewClient(conf discov.EtcdConf, base clientv3.Config) (*clientv3.Client, error) {
	base.Endpoints = conf.Hosts
	if conf.HasAccount() {
		base.Username, base.Password = conf.User, conf.Pass
	}
	if conf.HasTLS() {
		if err := base.SetSecure(&clientv3.SecureConfig{
			Cert: conf.CertFile, Key: conf.CertKeyFile, Cacert: conf.CACertFile, InsecureSkipVerify: conf.InsecureSkipVerify,
		}, nil); err != nil {
			return nil, err
		}
	}
	return clientv3.New(base)
}

// Register publishes the address of a server, ListenOn of go-zero's configuration, as a discov.Publisher does, and keeps it
// there until the program ends (proc.WrapUp), or until Withdraw of the Registrar: after an outage in which the lease was lost,
// and if the key is deleted, it is put again. It returns when the key is written; ctx bounds only that, and is 30 s without a
// deadline. For a host that is empty, 0.0.0.0 or :: the address has the variable POD_IP, or the first internal address.
//
// The key ends with the ID of conf, or with the address if that is 0. The error says what is missing in conf, or is the client's.
func Register(ctx context.Context, client *clientv3.Client, conf discov.EtcdConf, listenOn string) (*etcd.Registrar, error) {
	address, err := published(listenOn)
	if err != nil {
		return nil, err
	}
	name := address
	if conf.HasID() {
		name = strconv.FormatInt(conf.ID, 10)
	}
	registrar, err := etcd.Register(ctx, client, etcd.Registration{
		Service: conf.Key, Name: name, Value: address, TTL: time.Duration(discov.TimeToLive) * time.Second,
	})
	if err != nil {
		return nil, err
	}
	proc.AddWrapUpListener(func() {
		ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
		defer cancel()
		_ = registrar.Withdraw(ctx) // otherwise the key expires
	})
	return registrar, nil
}

// published returns the address by which callers reach a server.
func published(listenOn string) (string, error) {
	host, port, err := net.SplitHostPort(listenOn)
	if err != nil {
		return "", fmt.Errorf(`gozero: ListenOn is %q: it must have the form "host:port"`, listenOn)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		if host = cmp.Or(os.Getenv("POD_IP"), netx.InternalIp()); host == "" {
			return "", fmt.Errorf("gozero: ListenOn is %q, and this host has no address for callers: set POD_IP", listenOn)
		}
	}
	return net.JoinHostPort(host, port), nil
}

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
	key := cmp.Or(target.URL.Query().Get("key"), strings.Trim(target.URL.Path, "/"))
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
