package watches

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/history"
)

// dialTimeout is what the clients of a run are configured with.
const dialTimeout = 5 * time.Second

// Client is a client whose watches are put to the test.
type Client interface {
	client.Watcher
	// RequestProgress asks for bookmarks of the watches whose contexts have the
	// outgoing metadata of ctx.
	RequestProgress(ctx context.Context) error
	// Close ends the client and its watches.
	Close() error
}

// narrowBuffer bounds what is kept for a slow reader of one of the two clients, so
// that his watches are paused and resumed, which the default makes rare.
const narrowBuffer = 64 << 10

// connect connects through two clients of Quorate, each of which has half of the
// watches: one with default policies, and one that pauses watches early.
func connect(endpoints []string) (Client, error) {
	wide, err := newClient(endpoints, 0)
	if err != nil {
		return nil, err
	}
	narrow, err := newClient(endpoints, narrowBuffer)
	if err != nil {
		return nil, errors.Join(err, wide.Close())
	}
	return &pair{clients: []*clientv3.Client{wide, narrow}}, nil
}

func newClient(endpoints []string, buffer int) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: dialTimeout, Logger: zap.NewNop(), MaxWatchBufferBytes: buffer,
	})
}

type pair struct {
	clients []*clientv3.Client
	next    atomic.Uint64 // whose turn it is
}

func (q *pair) RequestProgress(ctx context.Context) error {
	errs := make([]error, len(q.clients))
	for i, c := range q.clients {
		errs[i] = c.RequestProgress(ctx)
	}
	return errors.Join(errs...)
}

func (q *pair) Close() error {
	errs := make([]error, len(q.clients))
	for i, c := range q.clients {
		errs[i] = c.Close()
	}
	return errors.Join(errs...)
}

func (q *pair) Watch(ctx context.Context, r history.WatchRequest) iter.Seq[history.WatchResponse] {
	return quorate.NewWatcher(q.clients[q.next.Add(1)%uint64(len(q.clients))]).Watch(ctx, r)
}
