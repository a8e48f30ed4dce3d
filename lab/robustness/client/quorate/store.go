package quorate

import (
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
)

// NewStore returns a Store that makes its calls through a client.
func NewStore(kv clientv3.KV) client.Store { return store{kv} }

type store struct {
	kv clientv3.KV
}

func (s store) Get(ctx context.Context, key string, serializable bool) (client.Answer, error) {
	var opts []clientv3.OpOption
	if serializable {
		opts = append(opts, clientv3.WithSerializable())
	}
	resp, err := s.kv.Get(ctx, key, opts...)
	if err != nil {
		return client.Answer{}, err
	}
	a := client.Answer{Revision: resp.Header.GetRevision()}
	if len(resp.Kvs) > 0 {
		a.Found, a.Value = true, string(resp.Kvs[0].Value)
	}
	return a, nil
}

func (s store) Put(ctx context.Context, key, value string) (int64, error) {
	resp, err := s.kv.Put(ctx, key, value)
	if err != nil {
		return 0, err
	}
	return resp.Header.GetRevision(), nil
}

func (s store) ReadRange(ctx context.Context, from, end string) error {
	_, err := s.kv.Get(ctx, from, clientv3.WithRange(end))
	return err
}
