package quorate

import (
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
)

// NewStore returns a Store that makes its calls through a client.
func NewStore(kv clientv3.KV) client.Store { return store{kv} }

type store struct{ kv clientv3.KV }

func (s store) Get(ctx context.Context, key, end string) (int64, error) {
	resp, err := s.kv.Get(ctx, key, clientv3.WithRange(end))
	if err != nil {
		return 0, err
	}
	return resp.Header.GetRevision(), nil
}

func (s store) Put(ctx context.Context, key, value string) error {
	_, err := s.kv.Put(ctx, key, value)
	return err
}
