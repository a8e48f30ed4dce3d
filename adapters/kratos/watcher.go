package kratos

import (
	"context"
	"errors"
	"sync"

	"github.com/go-kratos/kratos/v2/registry"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/internal/pause"
)

// errClientClosed wraps context.Canceled, with which kratos ends its use of a watcher.
var errClientClosed = errors.Join(errors.New("kratos: the etcd client was closed"), context.Canceled)

// Watch returns a watcher of the instances of a service, until its Stop, or until ctx ends or the client is closed. It does not
// wait for etcd. While etcd cannot be reached, the last instances stay.
func (r *Registry) Watch(ctx context.Context, serviceName string) (registry.Watcher, error) {
	instances, err := cache.New(r.client, cache.Config{Prefixes: []string{r.prefix(serviceName) + "/"}})
	if err != nil {
		return nil, err
	}
	informer, err := cache.NewInformer(instances, cache.InformerConfig[*registry.ServiceInstance]{
		Decode: decode,
		OnDecodeError: func(key string, _ int64, err error) {
			if lg := r.client.GetLogger(); lg != nil {
				lg.Warn("an instance cannot be decoded and is ignored", zap.String("key", key), zap.Error(err))
			}
		},
	})
	if err != nil {
		instances.Close()
		return nil, err
	}
	w := &watcher{client: r.client.Ctx(), informer: informer, changed: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.close = sync.OnceFunc(func() {
		informer.Close()
		instances.Close()
	})
	context.AfterFunc(w.ctx, w.close)
	informer.AddHandler(func(c cache.Change[*registry.ServiceInstance]) {
		switch c.Type {
		case cache.Synced, cache.Relisted: // each instance that has changed has a Change of its own
		default:
			pause.Signal(w.changed)
		}
	})
	return w, nil
}

type watcher struct {
	ctx      context.Context
	cancel   context.CancelFunc
	client   context.Context // ends with the client
	informer *cache.Informer[*registry.ServiceInstance]
	close    func()        // closes the informer and its cache
	changed  chan struct{} // capacity 1
}

// Next returns all instances, by key: first when there is one, then whenever they have changed. It fails once Watch's ctx or
// the client has ended, or after Stop.
func (w *watcher) Next() ([]*registry.ServiceInstance, error) {
	select {
	case <-w.ctx.Done():
	case <-w.client.Done():
	case <-w.changed:
	}
	switch { // an end counts more than a change
	case w.ctx.Err() != nil:
		return nil, w.ctx.Err()
	case w.client.Err() != nil:
		return nil, errClientClosed
	}
	var all []*registry.ServiceInstance
	for _, object := range w.informer.List() {
		all = append(all, object.Value)
	}
	return all, nil
}

// Stop ends the watcher.
func (w *watcher) Stop() error {
	w.cancel()
	w.close()
	return nil
}
