package lab

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/pause"
)

const (
	// pollInterval is the pause between two requests for the state of a member.
	pollInterval = 20 * time.Millisecond
	// askTimeout bounds one request to one member. A member answers Status from
	// memory in well under a millisecond; the rest is for a machine that is busy
	// starting other members.
	askTimeout = 10 * time.Second
)

// controlConnect makes the lab's own connections come back as fast as members do.
var controlConnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: pollInterval, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * pollInterval},
	MinConnectTimeout: time.Second,
}

// newControl makes the lab's own connection to the member.
func (m *Member) newControl() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+m.ports.client.Address(),
		grpc.WithNoProxy(),
		grpc.WithTransportCredentials(transportCredentials(m.cluster.ClientTLS())),
		grpc.WithConnectParams(controlConnect),
		grpc.WithUnaryInterceptor(m.authenticated),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
	)
}

func transportCredentials(config *tls.Config) credentials.TransportCredentials {
	if config == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(config)
}

// Status asks the member for its status, past the links. It fails when the member
// does not answer within ten seconds or before ctx ends; etcd 3.7 with
// authentication enabled answers only after Cluster.SetCredentials.
func (m *Member) Status(ctx context.Context) (*pb.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	reply, err := pb.NewMaintenanceClient(m.control).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = reply.GetHeader().GetMemberId()
	return reply, nil
}

// awaitServing polls a process until it answers clients, and reports false when it
// ends first.
func (m *Member) awaitServing(p *process) bool {
	for p.Alive() {
		err := m.checkServing(context.Background())
		if err == nil || answered(err) {
			return p.Alive()
		}
		_ = pause.Until(context.Background(), p.Exited(), pollInterval)
	}
	return false
}

// checkServing returns an error unless the member answers clients.
func (m *Member) checkServing(ctx context.Context) error {
	if ready := m.cluster.cfg.Ready; ready != nil {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		return ready(ctx, m.ports.client.Address())
	}
	_, err := m.Status(ctx)
	return err
}

// answered reports whether an error is the answer of a member that serves.
func answered(err error) bool {
	return slices.Contains([]codes.Code{codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied}, status.Code(err))
}

// Leader returns the member that leads, asking the running members past the links until one is
// known, ctx ends or Config.StartTimeout has passed. If several claim to lead, it is the one
// with the highest term. A leader that was killed or frozen is not returned, whatever its
// followers still report; one that was isolated or has lost its majority may be, until it or
// they have noticed, which takes up to twice the election timeout.
func (c *Cluster) Leader(ctx context.Context) (*Member, error) {
	var leader *Member
	err := c.poll(ctx, func(ctx context.Context) error {
		var err error
		leader, err = c.findLeader(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lab: no leader: %w", err)
	}
	return leader, nil
}

// WaitReady returns when every running member serves and names the same running member as
// the leader of the same term. Members that are killed or frozen do not count. It fails
// when ctx ends or after Config.StartTimeout, with the state of each member.
func (c *Cluster) WaitReady(ctx context.Context) error {
	if err := c.poll(ctx, c.checkReady); err != nil {
		return fmt.Errorf("lab: cluster is not ready: %w", err)
	}
	return nil
}

// MoveLeader makes a member the leader and returns when it is. It fails when ctx
// ends, after Config.StartTimeout, or at once when the cluster refuses.
func (c *Cluster) MoveLeader(ctx context.Context, to *Member) error {
	var refused error
	err := c.poll(ctx, func(ctx context.Context) error {
		leader, err := c.findLeader(ctx)
		if err != nil || leader == to {
			return err
		}
		_, err = pb.NewMaintenanceClient(leader.control).MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: to.ID()})
		if err != nil && answered(err) {
			refused = err
			return nil
		}
		return errors.Join(fmt.Errorf("%s leads", leader.name), err)
	})
	if err = errors.Join(err, refused); err != nil {
		return fmt.Errorf("lab: move leader to %s: %w", to.name, err)
	}
	return nil
}

// poll calls condition until it returns nil. When ctx, or Config.StartTimeout, ends first,
// it returns the last error.
func (c *Cluster) poll(ctx context.Context, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	var last error
	for {
		if cause := context.Cause(ctx); cause != nil {
			return errors.Join(cause, last)
		}
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // an error from before the end of ctx says more
		}
		_ = pause.For(ctx, pollInterval)
	}
}

// state asks all running members. It returns the running member that leads in the highest term, as one of them says, nil if
// there is none, and their answers as an error unless all agree on it.
func (c *Cluster) state(ctx context.Context) (leader *Member, disagreement error) {
	var first, latest *pb.StatusResponse
	var answers []string
	agree := true
	for _, m := range c.members {
		if !m.running() {
			continue
		}
		reply, err := m.Status(ctx)
		if err != nil {
			answers, agree = append(answers, fmt.Sprintf("%s: %v", m.name, err)), false
			continue
		}
		answers = append(answers, fmt.Sprintf("%s: leader %x in term %d", m.name, reply.GetLeader(), reply.GetRaftTerm()))
		first = cmp.Or(first, reply)
		claimed := c.runningMember(reply.GetLeader())
		agree = agree && claimed != nil && reply.GetLeader() == first.GetLeader() && reply.GetRaftTerm() == first.GetRaftTerm()
		if claimed != nil && reply.GetRaftTerm() > latest.GetRaftTerm() {
			leader, latest = claimed, reply
		}
	}
	if !agree || len(answers) == 0 {
		disagreement = fmt.Errorf("of the running members: %v", answers)
	}
	return leader, disagreement
}

func (c *Cluster) findLeader(ctx context.Context) (*Member, error) {
	leader, err := c.state(ctx)
	if leader != nil {
		return leader, nil
	}
	return nil, err
}

func (c *Cluster) checkReady(ctx context.Context) error {
	if c.cfg.Command != nil { // it has no leader to agree on
		return c.members[0].checkServing(ctx)
	}
	_, err := c.state(ctx)
	return err
}

// runningMember returns the running member of an etcd id, nil if there is none.
func (c *Cluster) runningMember(id uint64) *Member {
	for _, m := range c.members {
		if id != 0 && m.ID() == id && m.running() {
			return m
		}
	}
	return nil
}

// login is the user of the lab's own connection to a member, and the token that it last got, "" for none.
type login struct{ name, password, token string }

// SetCredentials sets the user as which the lab's own calls (Leader, WaitReady,
// MoveLeader, Member.Status, Member.Conn) log in once authentication is enabled in
// the cluster. Moving the leader needs the role root. With an empty name the calls do not log in.
func (c *Cluster) SetCredentials(name, password string) {
	for _, m := range c.members {
		m.login.Store(&login{name: name, password: password})
	}
}

// authenticated is a client interceptor that adds the member's token to calls, and
// gets a new one when the member requires another.
func (m *Member) authenticated(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	user := m.login.Load()
	if user == nil || user.name == "" {
		return invoke(ctx, method, request, reply, cc, opts...)
	}
	err := invoke(withToken(ctx, user.token), method, request, reply, cc, opts...)
	known := rpctypes.Error(err)
	if !errors.Is(known, rpctypes.ErrInvalidAuthToken) && !errors.Is(known, rpctypes.ErrAuthOldRevision) &&
		!errors.Is(known, rpctypes.ErrUserEmpty) {
		return err
	}
	fresh := new(pb.AuthenticateResponse)
	if err := invoke(ctx, pb.Auth_Authenticate_FullMethodName,
		&pb.AuthenticateRequest{Name: user.name, Password: user.password}, fresh, cc); err != nil {
		return fmt.Errorf("lab: log in to %s: %w", m.name, err)
	}
	m.login.CompareAndSwap(user, &login{user.name, user.password, fresh.Token})
	return invoke(withToken(ctx, fresh.Token), method, request, reply, cc, opts...)
}

func withToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}
