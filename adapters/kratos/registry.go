package kratos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-kratos/kratos/v2/registry"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/resolver/etcd"
)

// DefaultNamespace is what keys begin with, as in kratos' contrib/registry/etcd, and DefaultTTL is the TTL of leases.
const (
	DefaultNamespace = "/microservices"
	DefaultTTL       = 15 * time.Second
)

// Config configures a [Registry]. The zero value suits programs that share a cluster with others that use kratos'
// contrib/registry/etcd.
type Config struct {
	// Namespace is what all keys begin with. The default is DefaultNamespace.
	Namespace string
	// TTL is how long a crashed instance stays registered, at least 1 s. The default is DefaultTTL.
	TTL time.Duration
	// Notify, if set, is called when a registration is lost, superseded or made again, see etcd.Registration.
	Notify func(service *registry.ServiceInstance, event etcd.Event)
}

// Registry is a [registry.Registrar] and a [registry.Discovery]. It is safe for concurrent use.
type Registry struct {
	client *clientv3.Client
	cfg    Config

	mu         sync.Mutex
	registered map[string]*etcd.Registrar // by key
}

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Discovery = (*Registry)(nil)
)

// New returns a Registry. The client must stay open for as long as it is used. The error says what the configuration or the
// client lacks.
func New(client *clientv3.Client, cfg Config) (*Registry, error) {
	switch {
	case client == nil || client.KV == nil || client.Watcher == nil || client.Lease == nil:
		return nil, errors.New("kratos: the client is nil or has no KV, Watcher or Lease; give one that clientv3.New returned")
	case cfg.TTL != 0 && cfg.TTL < time.Second:
		return nil, fmt.Errorf("kratos: TTL is %v: it must be at least 1s; 0 means %v", cfg.TTL, DefaultTTL)
	}
	cfg.Namespace = cmp.Or(cfg.Namespace, DefaultNamespace)
	cfg.TTL = cmp.Or(cfg.TTL, DefaultTTL)
	return &Registry{client: client, cfg: cfg, registered: make(map[string]*etcd.Registrar)}, nil
}

func (r *Registry) prefix(name string) string { return r.cfg.Namespace + "/" + name }

// Register registers an instance, and keeps it registered until Deregister or until the client is closed: after an outage in
// which its lease was lost, and if its key is deleted, it is registered again. It returns when the key is written; ctx, or 30 s
// without a deadline, bounds only that. An instance that is registered already is replaced.
func (r *Registry) Register(ctx context.Context, service *registry.ServiceInstance) error {
	value, err := json.Marshal(service)
	if err != nil {
		return fmt.Errorf("kratos: the instance %q has no form in JSON: %w", service.ID, err)
	}
	registration := etcd.Registration{Service: r.prefix(service.Name), Name: service.ID, Value: string(value), TTL: r.cfg.TTL}
	if r.cfg.Notify != nil {
		registration.Notify = func(e etcd.Event) { r.cfg.Notify(service, e) }
	}
	registrar, err := etcd.Register(ctx, r.client, registration)
	if err != nil {
		return err
	}
	if before := r.swap(registrar.Key(), registrar); before != nil {
		_ = before.Withdraw(ctx) // its lease has no key, and expires otherwise
	}
	return nil
}

// Deregister removes an instance from etcd. After an error it expires with its lease, and Deregister can be called again. It
// does nothing for an instance that this Registry has not registered.
func (r *Registry) Deregister(ctx context.Context, service *registry.ServiceInstance) error {
	key := r.prefix(service.Name) + "/" + service.ID
	registrar := r.swap(key, nil)
	if registrar == nil {
		return nil
	}
	err := registrar.Withdraw(ctx)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.registered[key] == nil { // it was not registered again meanwhile
			r.registered[key] = registrar
		}
	}
	return err
}

// swap replaces what is registered under a key, and returns it; nil for nothing.
func (r *Registry) swap(key string, next *etcd.Registrar) (before *etcd.Registrar) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.registered[key]
	if r.registered[key] = next; next == nil {
		delete(r.registered, key)
	}
	return before
}

// GetService returns the instances of a service, by key, by a linearizable read. It leaves out what it cannot decode.
func (r *Registry) GetService(ctx context.Context, serviceName string) ([]*registry.ServiceInstance, error) {
	resp, err := r.client.Get(ctx, r.prefix(serviceName)+"/", clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("kratos: reading the instances of %q: %w", serviceName, err)
	}
	all := make([]*registry.ServiceInstance, 0, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		if instance, err := decode(kv.Key, kv.Value); err == nil && instance.Name == serviceName {
			all = append(all, instance)
		}
	}
	return all, nil
}

func decode(_, value []byte) (*registry.ServiceInstance, error) {
	instance := new(registry.ServiceInstance)
	return instance, json.Unmarshal(value, instance)
}

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
	w := &watcher{name: serviceName, client: r.client.Ctx(), informer: informer, changed: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.close = sync.OnceFunc(func() {
		informer.Close()
		instances.Close()
	})
	context.AfterFunc(w.ctx, w.close)
	informer.AddHandler(func(c cache.Change[*registry.ServiceInstance]) {
		if c.Type != cache.Synced && c.Type != cache.Relisted { // each instance that has changed has a Change of its own
			pause.Signal(w.changed)
		}
	})
	return w, nil
}

type watcher struct {
	name     string // of the service
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
		if object.Value.Name == w.name { // it may be of a service whose name begins with this one and a slash
			all = append(all, object.Value)
		}
	}
	return all, nil
}

// Stop ends the watcher.
func (w *watcher) Stop() error {
	w.cancel()
	w.close()
	return nil
}
