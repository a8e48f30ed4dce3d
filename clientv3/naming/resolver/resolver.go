package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	gresolver "google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/internal/registry"
)

const scheme = "etcd"

// NewBuilder returns a resolver builder for targets with the scheme "etcd", for
// grpc.WithResolvers. The client must stay open for as long as channels use it.
// The error says that there is no client.
func NewBuilder(client *clientv3.Client) (gresolver.Builder, error) {
	if client == nil {
		return nil, errors.New("resolver: the client is nil")
	}
	return builder{client}, nil
}

type builder struct {
	client *clientv3.Client
}

func (builder) Scheme() string { return scheme }

// Build begins to follow the endpoints of a target; it does not wait for etcd. The
// error has codes.InvalidArgument: the target names no service.
func (b builder) Build(target gresolver.Target, cc gresolver.ClientConn, _ gresolver.BuildOptions) (gresolver.Resolver, error) {
	service := target.Endpoint()
	if service == "" {
		return nil, status.Errorf(codes.InvalidArgument,
			"resolver: the target %q names no service; it has to have the form etcd:///service", target.URL.String())
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &etcdResolver{
		client: b.client, service: service, cc: cc, addrs: map[string]string{}, order: maphash.MakeSeed(),
		cancel: cancel, done: make(chan struct{}),
	}
	go r.run(ctx)
	return r, nil
}

// etcdResolver keeps one channel up to date. Its goroutine alone uses addrs.
type etcdResolver struct {
	client  *clientv3.Client
	service string
	cc      gresolver.ClientConn
	addrs   map[string]string // by key
	order   maphash.Seed      // of the endpoints, see endpoints

	cancel context.CancelFunc
	done   chan struct{}
}

// ResolveNow does nothing: the channel is told of changes as they happen.
func (*etcdResolver) ResolveNow(gresolver.ResolveNowOptions) {}

// Close returns when the channel will not be told anything any more.
func (r *etcdResolver) Close() {
	r.cancel()
	<-r.done
}

func (r *etcdResolver) run(ctx context.Context) {
	defer close(r.done)
	if err := registry.NewFollower(r.client, r.service).Follow(ctx, r); errors.Is(err, registry.ErrClientClosed) {
		r.Failed(err)
	}
}

// Changed tells the channel of all endpoints, and, if there are none, why its calls
// will fail.
func (r *etcdResolver) Changed(changes []registry.Change) {
	for _, c := range changes {
		delete(r.addrs, c.Key)
		switch {
		case c.Deleted:
		case c.Endpoint.Addr == "":
			registry.Logger(r.client).Warn("a registered endpoint has no address and is ignored", zap.String("key", c.Key))
		default:
			r.addrs[c.Key] = c.Endpoint.Addr
		}
	}
	// The channel's opinion of the state makes no difference to what is registered.
	_ = r.cc.UpdateState(gresolver.State{Endpoints: r.endpoints()})
	if len(r.addrs) == 0 {
		r.Failed(errors.New("no endpoint is registered"))
	}
}

// Failed tells the channel of an error. One that has endpoints keeps them.
func (r *etcdResolver) Failed(err error) {
	r.cc.ReportError(status.Error(codes.Unavailable, fmt.Sprintf("resolver: service %q: %v", r.service, err)))
}

// endpoints returns all endpoints, in an order that is another one for each channel, so
// that those that use the first do not all use the same, and does not change with what
// is registered.
func (r *etcdResolver) endpoints() []gresolver.Endpoint {
	all := make([]gresolver.Endpoint, 0, len(r.addrs))
	for _, key := range slices.SortedFunc(maps.Keys(r.addrs), func(a, b string) int {
		return cmp.Compare(maphash.String(r.order, a), maphash.String(r.order, b))
	}) {
		all = append(all, gresolver.Endpoint{Addresses: []gresolver.Address{{Addr: r.addrs[key]}}})
	}
	return all
}
