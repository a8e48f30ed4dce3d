package etcd

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	gresolver "google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/resolver/internal/feed"
	"github.com/quorate/quorate/resolver/internal/lastgood"
)

// maxListAge is how long the last list of a service is kept after its last channel closed or
// went idle: long enough for channels that go idle after half an hour, as they do by default.
const maxListAge = time.Hour

// builder has one source for each service that channels use.
type builder struct {
	sources *lastgood.Registry[string, *source, []gresolver.Endpoint]
}

func newBuilder(client *clientv3.Client, cfg Config) builder {
	return builder{lastgood.NewRegistry(maxListAge, func(service string, last []gresolver.Endpoint, ok bool) *source {
		return startSource(client, cfg, service, last)
	})}
}

func (builder) Scheme() string { return Scheme }

func (b builder) Build(target gresolver.Target, cc gresolver.ClientConn, _ gresolver.BuildOptions) (gresolver.Resolver, error) {
	service := target.Endpoint()
	if service == "" {
		return nil, status.Errorf(codes.InvalidArgument,
			"etcd: the target %q names no service; it has to have the form etcd:///service", target.URL.Redacted())
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &etcdResolver{release: func() { b.sources.Release(service) }, cancel: cancel, done: make(chan struct{})}
	s := b.sources.Acquire(service)
	go func() {
		defer close(r.done)
		s.Serve(ctx, cc, feed.AsIs)
	}()
	return r, nil
}

// etcdResolver passes the list of its service's source to one channel.
type etcdResolver struct {
	cancel  context.CancelFunc
	done    chan struct{}
	once    sync.Once
	release func()
}

// ResolveNow does nothing: the channel is notified of changes as they happen.
func (*etcdResolver) ResolveNow(gresolver.ResolveNowOptions) {}

// Close returns when the channel gets no further updates. It does not wait for etcd.
func (r *etcdResolver) Close() {
	r.cancel()
	<-r.done
	r.once.Do(r.release)
}
