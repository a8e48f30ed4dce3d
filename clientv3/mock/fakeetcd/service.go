package fakeetcd

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/store"
)

const (
	// maxRequestBytes is etcd's default of --max-request-bytes, 1.5 MiB: the largest
	// write that it accepts.
	maxRequestBytes = 1536 * 1024
	// envelopeBytes is what etcd adds to a large write before it compares: the ID of the request, and the type of both. A user
	// would add a name.
	envelopeBytes = 18
)

// access refuses callers of a method while authentication is enabled.
type access func(c *Call) error

// open allows all callers, even with an invalid token. Streams check the token
// with each request.
func open(*Call) error { return nil }

// checked allows callers without a token or with a valid one; the method itself
// checks permissions.
func checked(c *Call) error { return c.require(func(string) error { return nil }) }

// users allows every user.
func users(c *Call) error { return c.require(c.cluster.auth.RequireUser) }

// admins allows users with the root role.
func admins(c *Call) error { return c.require(c.cluster.auth.RequireAdmin) }

// service executes the calls of one method.
type service struct {
	access access
	// answer executes a call that has one response, with Cluster.mu. The response does not count with an error.
	answer func(c *Call) (proto.Message, error)
	// stream executes one that sends its responses itself, without Cluster.mu. Either is nil.
	stream func(c *Call) error
}

// unary makes a service from a function over typed messages.
func unary[Q, R proto.Message](a access, f func(c *Call, req Q) (R, error)) service {
	return service{access: a, answer: func(c *Call) (proto.Message, error) { return f(c, c.Request.(Q)) }}
}

// proposed is unary for a method that goes through raft.
func proposed[Q, R proto.Message](a access, f func(c *Call, req Q) (R, error)) service {
	return unary(a, func(c *Call, req Q) (resp R, err error) {
		if err := c.propose(req); err != nil {
			return resp, err
		}
		return f(c, req)
	})
}

// storeMethod makes a service from a method of the store that goes through raft. permit is asked whether the user may
// change the keys of the request.
func storeMethod[Q, R proto.Message](a access, permit func(*Call, Q) error, f func(*store.Store, Q) (R, error)) service {
	return proposed(a, func(c *Call, req Q) (resp R, err error) {
		if err := permit(c, req); err != nil {
			return resp, err
		}
		return f(c.cluster.store, req)
	})
}

func withoutKeys[Q any](*Call, Q) error { return nil }

// streaming makes a service from a function that sends its responses itself.
func streaming(a access, f func(c *Call) error) service {
	return service{access: a, stream: f}
}

// clusterPrefix begins the full names of methods whose responses have no revision.
const clusterPrefix = "/etcdserverpb.Cluster/"

// services holds a member's methods by full name.
var services = allServices()

func allServices() map[string]service {
	all := make(map[string]service)
	for prefix, methods := range map[string]map[string]service{
		"/etcdserverpb.KV/":          kvService,
		"/etcdserverpb.Watch/":       watchService,
		"/etcdserverpb.Lease/":       leaseService,
		clusterPrefix:                clusterService,
		"/etcdserverpb.Auth/":        authService,
		"/etcdserverpb.Maintenance/": maintenanceService,
		"/grpc.health.v1.Health/":    healthService,
	} {
		for name, s := range methods {
			all[prefix+name] = s
		}
	}
	return all
}

// execute executes the call like an etcd member.
func (c *Call) execute() (proto.Message, error) {
	resp, err := c.begin()
	if stream := c.method.service.stream; stream != nil && err == nil {
		err = stream(c)
	}
	return resp, err
}

// begin makes the checks common to all methods, in the server's order, and executes a
// call that has one response.
func (c *Call) begin() (proto.Message, error) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.record.Executed = true
	s := c.method.service
	if c.requiresLeader() && c.cluster.leader == nil {
		return nil, rpctypes.ErrGRPCNoLeader
	}
	if err := store.Check(c.Request); err != nil { // before authorization
		return nil, err
	}
	if err := s.access(c); err != nil || s.answer == nil {
		return nil, err
	}
	resp, err := s.answer(c)
	if err != nil {
		return nil, err
	}
	if r, ok := resp.(interface{ GetHeader() *pb.ResponseHeader }); ok {
		c.fill(r.GetHeader(), !strings.HasPrefix(c.Method, clusterPrefix))
	}
	return resp, nil
}

// require refuses a caller whose token is invalid, or whose user the check refuses.
func (c *Call) require(check func(user string) error) error {
	user, err := c.user()
	if err != nil {
		return err
	}
	return check(user)
}

// user returns the name of the user whose token the call carries.
func (c *Call) user() (string, error) { return c.cluster.auth.Identify(c.Metadata) }

func (c *Call) requiresLeader() bool {
	v := c.Metadata.Get(rpctypes.MetadataRequireLeaderKey)
	return len(v) > 0 && v[0] == rpctypes.MetadataHasLeader
}

// quorum fails, like a server after its request timeout, if there is no leader.
func (c *Call) quorum() error {
	if c.cluster.leader == nil {
		return rpctypes.ErrGRPCTimeout
	}
	return nil
}

// propose is quorum for a write, whose size is limited.
func (c *Call) propose(req proto.Message) error {
	if envelopeBytes+proto.Size(req) > maxRequestBytes {
		return rpctypes.ErrGRPCRequestTooLarge
	}
	return c.quorum()
}

func (c *Call) fill(h *pb.ResponseHeader, withRevision bool) {
	if h == nil {
		return
	}
	h.ClusterId, h.MemberId, h.RaftTerm = ClusterID, c.Member.id, c.cluster.term
	if withRevision && h.Revision == 0 {
		h.Revision = c.cluster.store.Revision()
	}
}

// header returns the header of a response that is sent on a stream, with the store's
// revision if rev is 0.
func (c *Call) header(rev int64) *pb.ResponseHeader {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	h := &pb.ResponseHeader{Revision: rev}
	c.fill(h, true)
	return h
}

// requests reads the requests of a stream until the client's last one or the end of
// the stream, and then closes the channel.
func (c *Call) requests() <-chan proto.Message {
	out := make(chan proto.Message)
	ctx := c.Context()
	c.cluster.background.Go(func() {
		defer close(out)
		for {
			req, err := c.Recv()
			if err != nil {
				return
			}
			select {
			case out <- req:
			case <-ctx.Done():
				return
			}
		}
	})
	return out
}
