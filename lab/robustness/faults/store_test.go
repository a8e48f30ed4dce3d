package faults

import (
	"context"
	"sync"

	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// memory is a client.KV and a store in memory. before, if set, is called ahead of every call
// and may wait; after, if set, may replace the result of a call that was
// executed by an error.
type memory struct {
	client.Store
	before func(ctx context.Context, k model.Kind, key string) error
	after  func(k model.Kind) error

	mu       sync.Mutex
	revision int64
	keys     map[string]model.KV
	deleted  chan struct{} // closed when a key is gone
}

func newMemory() *memory {
	return &memory{revision: 1, keys: map[string]model.KV{}, deleted: make(chan struct{})}
}

// Revision and AwaitDeletion are those of the record of the store.
func (m *memory) Revision() int64 { return 1 }

func (m *memory) AwaitDeletion(ctx context.Context, key string, _ int64) error {
	select {
	case <-m.deleted:
		m.mu.Lock()
		gone := m.keys[key].Version == 0
		m.mu.Unlock()
		if gone {
			return nil
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	return ctx.Err()
}

// connection returns a connection to it.
func (m *memory) connection() client.Connection { return client.Connection{KV: m, Store: m} }

// do executes a call under the lock, between before and after.
func (m *memory) do(ctx context.Context, k model.Kind, key string, execute func()) error {
	if m.before != nil {
		if err := m.before(ctx, k, key); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	execute()
	if m.after != nil {
		return m.after(k)
	}
	return nil
}

func (m *memory) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (response model.Response, err error) {
	err = m.do(ctx, request.Kind, keys[request.Then[0].Key], func() {
		acts, wrote := request.Then, false
		response.Succeeded = true
		for _, c := range request.If {
			if m.keys[keys[c.Key]].ModRevision != c.Number {
				acts, response.Succeeded = request.Else, false
			}
		}
		for _, act := range acts {
			key, result := keys[act.Key], model.Result{}
			if act.Verb == model.Write {
				m.keys[key] = model.KV{Value: act.Value, ModRevision: m.revision + 1, Version: m.keys[key].Version + 1}
				wrote = true
			} else {
				result.KV = m.keys[key]
			}
			response.Results = append(response.Results, result)
		}
		if wrote {
			m.revision++
		}
		response.Revision = m.revision
	})
	return response, err
}

func (m *memory) Get(ctx context.Context, key string) (int64, error) {
	response, err := m.Do(ctx, [model.Keys]string{key}, model.Request{Kind: model.Get, Then: []model.Act{{Verb: model.Read}}})
	return response.Revision, err
}

func (m *memory) Put(ctx context.Context, key, value string) (int64, error) {
	response, err := m.Do(ctx, [model.Keys]string{key}, model.Request{Kind: model.Put, Then: []model.Act{{Verb: model.Write, Value: value}}})
	return response.Revision, err
}
