package bench

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
)

type ourClient struct{ *clientv3.Client }

func openOurs(cfg config) (client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: cfg.endpoints, TLS: cfg.tls, DialOptions: cfg.options, DialTimeout: dialTimeout, Logger: zap.NewNop(),
	})
	return ourClient{c}, err
}

func (c ourClient) get(ctx context.Context, key string) error {
	_, err := c.Get(ctx, key)
	return err
}

func (c ourClient) put(ctx context.Context, key string) (int64, error) {
	resp, err := c.Put(ctx, key, "value")
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}

func (c ourClient) watch(ctx context.Context, key string) watch {
	return ourWatch(c.Watch(ctx, key))
}

func (c ourClient) watchAll(ctx context.Context, prefix string, revision int64) watch {
	return ourWatch(c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(revision)))
}

type ourWatch clientv3.WatchChan

func (w ourWatch) next() ([]*mvccpb.Event, error) {
	resp, open := <-w
	if !open {
		return nil, errClosed
	}
	return resp.Events, resp.Err()
}

func (c ourClient) lease(ctx, granting context.Context, ttl int64) (renewals, error) {
	granted, err := c.Grant(granting, ttl)
	if err != nil {
		return nil, err
	}
	answers, err := c.KeepAlive(ctx, granted.ID)
	return ourRenewals(answers), err
}

type ourRenewals <-chan *clientv3.LeaseKeepAliveResponse

func (r ourRenewals) arrived() int { return len(r) }

func (r ourRenewals) read() bool {
	_, open := <-r
	return open
}
