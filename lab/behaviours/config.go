package behaviours

import (
	"context"
	"encoding/json"
	"errors"
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
	log.Value("clone of nil", (*clientv3.ConfigSpec)(nil).Clone())
	log.Value("clone of nothing", (&clientv3.ConfigSpec{}).Clone())
	log.Value("empty auth", clientv3.AuthConfig{}.Empty())
	log.Value("auth with a token", clientv3.AuthConfig{Token: "t"}.Empty())

	specs := []struct {
		name string
		spec clientv3.ConfigSpec
	}{
		{"nothing", clientv3.ConfigSpec{}},
		{"all", *clone},
		{"missing CA", clientv3.ConfigSpec{Secure: &clientv3.SecureConfig{Cacert: "/none/ca"}}},
		{"missing certificate", clientv3.ConfigSpec{Secure: &clientv3.SecureConfig{Cert: "/none/cert", Key: "/none/key"}}},
		{"certificate without key", clientv3.ConfigSpec{Secure: &clientv3.SecureConfig{Cert: "/none/cert"}}},
	}
	for _, s := range specs {
		cfg, err := clientv3.NewClientConfig(&s.spec, zap.NewNop())
		log.Error(s.name, err)
		if err == nil {
			logConfig(log, s.name, cfg)
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
	cases := []struct {
		name string
		cfg  clientv3.Config
	}{
		{"no endpoints", clientv3.Config{}},
		{"token and user", clientv3.Config{Endpoints: []string{"a:1"}, Token: "t", Username: "u"}},
		{"send limit above receive limit", clientv3.Config{Endpoints: []string{"a:1"}, MaxCallSendMsgSize: 2, MaxCallRecvMsgSize: 1}},
		{"equal limits", clientv3.Config{Endpoints: []string{"a:1"}, MaxCallSendMsgSize: 1, MaxCallRecvMsgSize: 1}},
		{"user without password", clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Username: "u"}},
		{"login with no server", clientv3.Config{
			Endpoints: []string{"127.0.0.1:1"}, Username: "u", Password: "p", DialTimeout: 200 * time.Millisecond,
		}},
		{"login after the end", clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Username: "u", Password: "p", Context: cancelled}},
		{"version with no server", clientv3.Config{
			Endpoints: []string{"127.0.0.1:1"}, RejectOldCluster: true, DialTimeout: 200 * time.Millisecond,
		}},
		{"bad log configuration", clientv3.Config{Endpoints: []string{"a:1"}, LogConfig: &zap.Config{Encoding: "none"}}},
	}
	for _, tc := range cases {
		if tc.cfg.LogConfig == nil {
			tc.cfg.Logger = zap.NewNop()
		}
		c, err := clientv3.New(tc.cfg)
		log.Error(tc.name, err)
		log.Value(tc.name+": client", c != nil)
		log.Value(tc.name+": no endpoints", errors.Is(err, clientv3.ErrNoAvailableEndpoints))
		log.Value(tc.name+": exclusive", errors.Is(err, clientv3.ErrMutuallyExclusiveCfg))
		if c != nil {
			log.Error(tc.name+": close", c.Close())
		}
	}
	_, err := clientv3.NewFromURLs(nil)
	log.Error("no URLs", err)
	log.Error("ErrOldCluster", clientv3.ErrOldCluster)
}
