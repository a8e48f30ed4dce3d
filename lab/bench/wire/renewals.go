package wire

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// roomPerLease is how many messages of a lease there is room for before a log has
// to grow.
const roomPerLease = 16

// Renewals records when the keepalive of each lease is sent and answered. It is a
// stream interceptor that only appends to a log, so that it costs the measured client
// next to nothing.
type Renewals struct {
	began time.Time

	mu  sync.Mutex
	log []message
}

// message is a keepalive or an answer to one.
type message struct {
	at    time.Duration // since the log began
	lease int64
	ttl   time.Duration // of an answer; 0 marks a keepalive that is sent
}

// NewRenewals returns a Renewals with room for n leases.
func NewRenewals(n int) *Renewals {
	return &Renewals{began: time.Now(), log: make([]message, 0, roomPerLease*n)}
}

// DialOption makes a client report to r.
func (r *Renewals) DialOption() grpc.DialOption { return grpc.WithChainStreamInterceptor(r.intercept) }

// Lateness returns how long after they were due keepalives were sent between two times: the median and the longest. A keepalive
// is due a third of the TTL after the one before it was sent. Of a lease that is overdue at the end it counts what has passed.
func (r *Renewals) Lateness(from, to time.Time) (median, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return lateness(r.log, from.Sub(r.began), to.Sub(r.began))
}

func (r *Renewals) note(lease int64, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, message{at: time.Since(r.began), lease: lease, ttl: ttl})
}

func (r *Renewals) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil || method != pb.Lease_LeaseKeepAlive_FullMethodName {
		return stream, err
	}
	return &renewalStream{ClientStream: stream, seen: r}, nil
}

// renewalStream is the stream of keepalives.
type renewalStream struct {
	grpc.ClientStream
	seen *Renewals
}

func (s *renewalStream) SendMsg(m any) error {
	if req, ok := m.(*pb.LeaseKeepAliveRequest); ok {
		s.seen.note(req.ID, 0)
	}
	return s.ClientStream.SendMsg(m)
}

func (s *renewalStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if resp, ok := m.(*pb.LeaseKeepAliveResponse); ok && err == nil && resp.TTL > 0 {
		s.seen.note(resp.ID, time.Duration(resp.TTL)*time.Second)
	}
	return err
}
