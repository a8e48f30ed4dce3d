package fakeetcd

import (
	"context"
	"slices"

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
	// Peer names the connection of the call, such as "client-3" for the third that was
	// dialled to the member.
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

// recordLocked records a call, and returns the number of calls of its method.
func (c *Cluster) recordLocked(rec *Record) (number int) {
	c.records = append(c.records, rec)
	if c.arrived != nil {
		close(c.arrived)
		c.arrived = nil
	}
	c.counts[rec.Method]++
	return c.counts[rec.Method]
}

func (c *Cluster) countLocked(method string) int {
	n := 0
	for full, count := range c.counts {
		if matches(method, full) {
			n += count
		}
	}
	return n
}

// Calls returns the calls that all members received, in the order of arrival.
// Methods, in the form of On, select calls; without any, all are returned.
func (c *Cluster) Calls(methods ...string) []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Record
	for _, rec := range c.records {
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
	return locked(c, func() int { return c.countLocked(method) })
}

// Wait waits until the members have received n calls of a method, and these calls
// have their hooks. See On for the method. The error is that of ctx if it ends
// before.
func (c *Cluster) Wait(ctx context.Context, method string, n int) error {
	for {
		arrived, reached := c.reached(method, n)
		if reached {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *Cluster) reached(method string, n int) (arrived <-chan struct{}, reached bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.countLocked(method) >= n {
		return nil, true
	}
	if c.arrived == nil {
		c.arrived = make(chan struct{})
	}
	return c.arrived, false
}
