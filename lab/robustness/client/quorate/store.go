package quorate

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
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
		a.Read = history.Reading{Found: true, Value: string(resp.Kvs[0].Value), ModRevision: resp.Kvs[0].ModRevision}
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

func (s store) Increment(ctx context.Context, inc client.Increment) (client.Answer, error) {
	hasValue := clientv3.Compare(clientv3.Value(inc.Counter), "=", strconv.FormatInt(inc.Want, 10))
	if inc.Want == 0 {
		hasValue = clientv3.Compare(clientv3.CreateRevision(inc.Counter), "=", 0)
	}
	resp, err := s.kv.Txn(ctx).
		If(hasValue).
		Then(clientv3.OpPut(inc.Counter, strconv.FormatInt(inc.Want+1, 10)), clientv3.OpPut(inc.Key, inc.Value)).
		Else(clientv3.OpGet(inc.Counter)).
		Commit()
	if err != nil {
		return client.Answer{}, err
	}
	a := client.Answer{Revision: resp.Header.GetRevision(), Applied: resp.Succeeded}
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			a.Read = history.Reading{Found: true, Value: string(kv.Value), ModRevision: kv.ModRevision}
		}
	}
	return a, nil
}

func (s store) ReadRange(ctx context.Context, from, end string) error {
	_, err := s.kv.Get(ctx, from, clientv3.WithRange(end))
	return err
}
