package behaviours

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

func configs(_ context.Context, _ Site, log *transcript.Log) {
	spec := &clientv3.ConfigSpec{
		Endpoints:          []string{"a:1", "b:2"},
		RequestTimeout:     time.Second,
		DialTimeout:        2 * time.Second,
		KeepAliveTime:      3 * time.Second,
		KeepAliveTimeout:   4 * time.Second,
		MaxCallSendMsgSize: 5,
		MaxCallRecvMsgSize: 6,
		Secure:             &clientv3.SecureConfig{InsecureTransport: true},
		Auth:               &clientv3.AuthConfig{Username: "u", Password: "p", Token: "t"},
	}
	text := ok(json.Marshal(spec))
	log.Value("as JSON", string(text))
	var read clientv3.ConfigSpec
	log.Error("from JSON", json.Unmarshal(text, &read))
	log.Value("read back", read)

	clone := spec.Clone()
	spec.Endpoints[0], spec.Secure.Cert, spec.Auth.Username = "changed", "changed", "changed"
	log.Value("clone", clone)
	for name, spec := range []*clientv3.ConfigSpec{
		clone,
		{},
		{Secure: &clientv3.SecureConfig{Cacert: "/none/ca"}},
		{Secure: &clientv3.SecureConfig{Cert: "/none/cert", Key: "/none/key"}},
		{Secure: &clientv3.SecureConfig{Cert: "/none/cert"}},
	} {
		cfg, err := clientv3.NewClientConfig(spec, zap.NewNop())
		log.Error(fmt.Sprint(name), err)
		if err == nil {
			logConfig(log, fmt.Sprint(name), cfg)
		}
	}
}

func logConfig(log *transcript.Log, name string, cfg *clientv3.Config) {
	log.Value(name+": fields", []any{
		cfg.Endpoints, cfg.DialTimeout, cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout, cfg.MaxCallSendMsgSize,
		cfg.MaxCallRecvMsgSize, cfg.Username, cfg.Password, cfg.Token,
	})
	log.Value(name+": TLS", cfg.TLS != nil)
	if cfg.TLS != nil {
		log.Value(name+": TLS fields", []any{cfg.TLS.ServerName, cfg.TLS.InsecureSkipVerify, cfg.TLS.MinVersion, cfg.TLS.RootCAs != nil})
	}
}

func newErrors(_ context.Context, _ Site, log *transcript.Log) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	endpoints, unreachable := []string{"a:1"}, []string{"127.0.0.1:1"}
	const timeout = 200 * time.Millisecond
	try := func(name string, cfg clientv3.Config) {
		if cfg.LogConfig == nil {
			cfg.Logger = zap.NewNop()
		}
		c, err := clientv3.New(cfg)
		log.Error(name, err)
		log.Value(name+": client", c != nil)
		log.Value(name+": no endpoints", errors.Is(err, clientv3.ErrNoAvailableEndpoints))
		log.Value(name+": exclusive", errors.Is(err, clientv3.ErrMutuallyExclusiveCfg))
		if c != nil {
			log.Error(name+": close", c.Close())
		}
	}
	try("no endpoints", clientv3.Config{})
	try("token and user", clientv3.Config{Endpoints: endpoints, Token: "t", Username: "u"})
	try("send limit above receive limit", clientv3.Config{Endpoints: endpoints, MaxCallSendMsgSize: 2, MaxCallRecvMsgSize: 1})
	try("equal limits", clientv3.Config{Endpoints: endpoints, MaxCallSendMsgSize: 1, MaxCallRecvMsgSize: 1})
	try("user without password", clientv3.Config{Endpoints: unreachable, Username: "u"})
	try("login with no server", clientv3.Config{Endpoints: unreachable, Username: "u", Password: "p", DialTimeout: timeout})
	try("login after the end", clientv3.Config{Endpoints: unreachable, Username: "u", Password: "p", Context: cancelled})
	try("version with no server", clientv3.Config{Endpoints: unreachable, RejectOldCluster: true, DialTimeout: timeout})
	try("bad log configuration", clientv3.Config{Endpoints: endpoints, LogConfig: &zap.Config{Encoding: "none"}})
	_, err := clientv3.NewFromURLs(nil)
	log.Error("no URLs", err)
	log.Error("ErrOldCluster", clientv3.ErrOldCluster)
}
