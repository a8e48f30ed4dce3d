package faults

import (
	"context"
	"strconv"
	"sync"

	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
)

// memory is a store in memory. before, if set, is called ahead of every call
// and may wait; after, if set, may replace the result of a call that was
// executed by an error.
type memory struct {
	client.Store
	before func(ctx context.Context, k history.Kind, key string) error
	after  func(k history.Kind) error

	mu       sync.Mutex
	revision int64
	keys     map[string]stored
}

// stored is a key in memory; Version counts its writes.
type stored struct {
	Value                string
	ModRevision, Version int64
}

func newMemory() *memory { return &memory{revision: 1, keys: map[string]stored{}} }

// do executes a call under the lock, between before and after.
func (m *memory) do(ctx context.Context, k history.Kind, key string, execute func()) error {
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

func (m *memory) set(key, value string) {
	m.keys[key] = stored{Value: value, ModRevision: m.revision, Version: m.keys[key].Version + 1}
}

func (m *memory) read(key string) history.Reading {
	kv, ok := m.keys[key]
	return history.Reading{Found: ok, Value: kv.Value, ModRevision: kv.ModRevision}
}

func (m *memory) Get(ctx context.Context, key string, serializable bool) (a client.Answer, err error) {
	kind := history.LinearizableGet
	if serializable {
		kind = history.SerializableGet
	}
	err = m.do(ctx, kind, key, func() { a = client.Answer{Revision: m.revision, Read: m.read(key)} })
	return a, err
}

func (m *memory) Put(ctx context.Context, key, value string) (revision int64, err error) {
	err = m.do(ctx, history.Put, key, func() {
		m.revision++
		m.set(key, value)
		revision = m.revision
	})
	return revision, err
}

func (m *memory) Increment(ctx context.Context, inc client.Increment) (a client.Answer, err error) {
	err = m.do(ctx, history.Txn, inc.Key, func() {
		now := m.read(inc.Counter)
		if now.Found != (inc.Want > 0) || now.Found && now.Value != strconv.FormatInt(inc.Want, 10) {
			a = client.Answer{Revision: m.revision, Read: now}
			return
		}
		m.revision++
		m.set(inc.Counter, strconv.FormatInt(inc.Want+1, 10))
		m.set(inc.Key, inc.Value)
		a = client.Answer{Revision: m.revision, Applied: true}
	})
	return a, err
}
