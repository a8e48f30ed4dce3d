package fakeetcd

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Record describes a call that a member received.
type Record struct {
	// Member is the member that received the call.
	Member *Member
	// Method is the full name, such as "/etcdserverpb.KV/Put".
	Method string
	// Requests holds copies of the requests: one, or for a bidirectional stream all that
	// the member has read so far.
	Requests []proto.Message
	// Metadata is the client's metadata.
	Metadata metadata.MD
	// Peer names the connection of the call, such as "client-3".
	Peer string
	// Executed says whether the member has begun to execute the call.
	Executed bool
}

// Request returns the first request, nil if there is none yet.
func (r Record) Request() proto.Message {
	if len(r.Requests) == 0 {
		return nil
	}
	return r.Requests[0]
}

// recorder keeps the calls in the order of their arrival.
type recorder struct {
	mu      sync.Mutex
	records []*Record
	counts  map[string]int // of records, by method
	moved   chan struct{}  // closed when a call arrives, nil without waiters
}

// add records a call, and returns the number of calls of its method.
func (r *recorder) add(rec *Record) (number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, rec)
	if r.moved != nil {
		close(r.moved)
		r.moved = nil
	}
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[rec.Method]++
	return r.counts[rec.Method]
}

func (r *recorder) addRequest(rec *Record, req proto.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.Requests = append(rec.Requests, proto.Clone(req))
}

func (r *recorder) markExecuted(rec *Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.Executed = true
}

func (r *recorder) countLocked(method string) int {
	n := 0
	for full, count := range r.counts {
		if matches(method, full) {
			n += count
		}
	}
	return n
}

// Calls returns the calls that all members received, in the order of arrival.
// Methods, in the form of On, select calls; without any, all are returned.
func (c *Cluster) Calls(methods ...string) []Record {
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	var out []Record
	for _, rec := range c.recorder.records {
		selected := len(methods) == 0 ||
			slices.ContainsFunc(methods, func(m string) bool { return matches(m, rec.Method) })
		if !selected {
			continue
		}
		copied := *rec
		copied.Requests = slices.Clone(rec.Requests)
		out = append(out, copied)
	}
	return out
}

// Count returns how many calls of a method all members received. See On for the
// method.
func (c *Cluster) Count(method string) int {
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	return c.recorder.countLocked(method)
}

// Wait waits until the members have received n calls of a method, and these calls
// have their hooks. See On for the method. The error is that of ctx if it ends
// before.
func (c *Cluster) Wait(ctx context.Context, method string, n int) error {
	for {
		moved, reached := c.recorder.reached(method, n)
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *recorder) reached(method string, n int) (moved <-chan struct{}, reached bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.countLocked(method) >= n {
		return nil, true
	}
	if r.moved == nil {
		r.moved = make(chan struct{})
	}
	return r.moved, false
}
