package behaviours

import (
	"context"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// files connects with a configuration that was read from a specification.
func files(ctx context.Context, at Site, log *transcript.Log) {
	specs := map[string]*clientv3.SecureConfig{
		"CA and certificate": {Cacert: at.Files.CA, Cert: at.Files.ClientCert, Key: at.Files.ClientKey},
		"no verification":    {InsecureSkipVerify: true},
		"insecure":           {InsecureTransport: true},
		"server name":        {Cacert: at.Files.CA, ServerName: "localhost"},
		"wrong server name":  {Cacert: at.Files.CA, ServerName: "wrong"},
		"no CA":              {},
		"none":               nil,
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		spec := &clientv3.ConfigSpec{Endpoints: at.Endpoints, Secure: specs[name]}
		cfg := ok(clientv3.NewClientConfig(spec, zap.NewNop()))
		cfg.Logger = zap.NewNop()
		logConfig(log, name, cfg)
		c := ok(clientv3.New(*cfg))
		// The name in the certificate is to be that of the endpoint, whatever the server name of the configuration.
		if refused := at.Files.CA != "" && slices.Contains([]string{"no CA", "none", "insecure"}, name); refused {
			withDeadline(ctx, 300*time.Millisecond, func(ctx context.Context) { log.Step(name + ", expires: get")(c.Get(ctx, "files")) })
		} else {
			log.Step(name + ": get")(c.Get(ctx, "files"))
		}
		log.Error(name+": close", c.Close())
	}
}

// closes uses clients after their end.
func closes(ctx context.Context, at Site, log *transcript.Log) {
	c := at.client()
	log.Step("get")(c.Get(ctx, "close"))
	conn := c.ActiveConnection()
	log.Error("close", c.Close())
	log.Error("context", c.Ctx().Err())
	log.Error("close again", c.Close())
	_, err := c.Get(ctx, "close")
	log.Error("get after close", err)
	log.Value("get after close: connection is closed", clientv3.IsConnCanceled(err))
	_, err = c.Snapshot(ctx)
	log.Value("snapshot after close fails", err != nil)
	log.Value("connection", conn.GetState().String())
}
