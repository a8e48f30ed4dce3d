package quorate

import (
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
)

// NewStore returns a Store that makes its calls through a client.
func NewStore(kv clientv3.KV) client.Store { return store{kv} }

type store struct{ kv clientv3.KV }

func (s store) Get(ctx context.Context, key string) (int64, error) {
	resp, err := s.kv.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	return resp.Header.GetRevision(), nil
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
