package fakeetcd

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Record is what is known of a call that a member received.
type Record struct {
	// Member is the member that received the call.
	Member *Member
	// Method is the full name, such as "/etcdserverpb.KV/Put".
	Method string
	// Requests holds copies of the requests: one, or for the streams on which
	// the client sends requests as it goes, all that the member read so far.
	Requests []proto.Message
	// Metadata is what the client sent along.
	Metadata metadata.MD
	// Peer names the connection that the call came over, such as "client-3".
	Peer string
	// Executed says whether the member began to carry out the call.
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
	moved   chan struct{} // closed and replaced when a call arrives, nil while nobody waits
}

// add records a call, and returns how many of its method there are now.
func (r *recorder) add(rec *Record) (number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, rec)
	if r.moved != nil {
		close(r.moved)
		r.moved = nil
	}
	return r.countLocked(rec.Method)
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
	for _, rec := range r.records {
		if matches(method, rec.Method) {
			n++
		}
	}
	return n
}

// Calls returns the calls that all members received, in the order of their
// arrival. Methods, as On takes them, select some; without any, it is all.
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

// Count returns how many calls of a method, as On takes it, all members received.
func (c *Cluster) Count(method string) int {
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	return c.recorder.countLocked(method)
}

// Wait waits until the members have received n calls of a method, as On takes
// it. Those calls have been given to their hooks then. The error is that of
// ctx if it ends before.
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
