package cases

import (
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// lateness measures how late the keepalives of leases are sent, as a stream interceptor of whichever client. One is due a third
// of the TTL after the one before it was sent, as both clients have it.
type lateness struct {
	due time.Duration

	mu   sync.Mutex
	sent map[int64]time.Time // the latest keepalive of each lease
	late []time.Duration     // since the start
}

func newLateness(ttl time.Duration) *lateness {
	return &lateness{due: ttl / 3, sent: make(map[int64]time.Time)}
}

// start forgets how late keepalives were so far.
func (l *lateness) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = nil
}

// end returns the median and the longest since the start. Of a lease that is overdue it counts what has passed.
func (l *lateness) end() (median, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.late)
	for _, sent := range l.sent {
		if overdue := time.Since(sent) - l.due; overdue > 0 {
			all = append(all, overdue)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2], all[len(all)-1]
}

// note notes that a keepalive is sent.
func (l *lateness) note(lease int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if before, known := l.sent[lease]; known {
		l.late = append(l.late, max(now.Sub(before)-l.due, 0))
	}
	l.sent[lease] = now
}

func (l *lateness) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, opts...)
	return &renewalStream{stream, l}, err
}

type renewalStream struct {
	grpc.ClientStream
	seen *lateness
}

func (s *renewalStream) SendMsg(m any) error {
	if req, ok := m.(*pb.LeaseKeepAliveRequest); ok {
		s.seen.note(req.ID)
	}
	return s.ClientStream.SendMsg(m)
}
