package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	gresolver "google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/registry"
)

type builder struct {
	client *clientv3.Client
	cfg    Config
}

func (builder) Scheme() string { return Scheme }

func (b builder) Build(target gresolver.Target, cc gresolver.ClientConn, _ gresolver.BuildOptions) (gresolver.Resolver, error) {
	service := target.Endpoint()
	if service == "" {
		return nil, status.Errorf(codes.InvalidArgument,
			"etcd: the target %q names no service; it has to have the form etcd:///service", target.URL.Redacted())
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &etcdResolver{
		follower: registry.NewFollower(b.client, service, b.cfg.ReportAfter),
		log:      registry.Logger(b.client),
		listed:   map[string]registry.Change{},
		publisher: publisher{
			service: service, cc: cc,
		},
		cancel: cancel,
		done:   make(chan struct{}),
	}
	go r.run(ctx)
	return r, nil
}

// etcdResolver keeps one channel up to date. It observes what its Follower sees, in a
// goroutine that alone uses listed.
type etcdResolver struct {
	follower  *registry.Follower
	log       *zap.Logger
	listed    map[string]registry.Change // by key, those with an address
	publisher publisher

	cancel context.CancelFunc
	done   chan struct{}
}

// ResolveNow does nothing: the channel is told of changes as they happen.
func (*etcdResolver) ResolveNow(gresolver.ResolveNowOptions) {}

// Close returns when the channel will not be told anything any more. It waits for no answer
// of etcd's.
func (r *etcdResolver) Close() {
	r.cancel()
	<-r.done
	r.publisher.close()
}

func (r *etcdResolver) run(ctx context.Context) {
	defer close(r.done)
	if err := r.follower.Follow(ctx, r); errors.Is(err, registry.ErrClientClosed) {
		r.publisher.lost(fmt.Errorf("%w; the resolver needs it for as long as there are channels", err))
	}
}

// Changed implements registry.Observer.
func (r *etcdResolver) Changed(changes []registry.Change) {
	for _, c := range changes {
		switch {
		case c.Deleted:
			delete(r.listed, c.Key)
		case c.Endpoint.Addr == "":
			r.log.Warn("a registered endpoint has no address and is ignored", zap.String("key", c.Key))
		default:
			r.listed[c.Key] = c
		}
	}
	r.publisher.publish(endpointsOf(r.listed))
}

// Lost implements registry.Observer.
func (r *etcdResolver) Lost(err error) { r.publisher.lost(err) }

// Regained implements registry.Observer.
func (r *etcdResolver) Regained() { r.publisher.regained() }
