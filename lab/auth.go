package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// login is the user of the lab's own connection to a member.
type login struct {
	mu             sync.Mutex
	name, password string
	token          string // "" before the first call, and when authentication is not enabled
}

// SetCredentials sets the user as which the lab's own calls (Leader, WaitReady,
// MoveLeader, Member.Status, Member.Conn) log in once authentication is enabled in
// the cluster. Moving the leader needs the role root. An empty name ends it.
func (c *Cluster) SetCredentials(name, password string) {
	for _, m := range c.members {
		m.login.mu.Lock()
		m.login.name, m.login.password, m.login.token = name, password, ""
		m.login.mu.Unlock()
	}
}

// authenticated is a client interceptor that adds the member's token to calls, and
// gets a new one when the member no longer knows it.
func (m *Member) authenticated(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	token, err := m.token(ctx, cc, invoke, "")
	if err != nil {
		return err
	}
	err = invoke(withToken(ctx, token), method, request, reply, cc, opts...)
	known := rpctypes.Error(err)
	if !errors.Is(known, rpctypes.ErrInvalidAuthToken) && !errors.Is(known, rpctypes.ErrAuthOldRevision) &&
		!errors.Is(known, rpctypes.ErrUserEmpty) {
		return err
	}
	fresh, loginErr := m.token(ctx, cc, invoke, token)
	if loginErr != nil || fresh == token {
		return err
	}
	return invoke(withToken(ctx, fresh), method, request, reply, cc, opts...)
}

// token returns the token in use, or a new one when there is none or it is the
// stale one. It is empty without credentials, and while authentication is not
// enabled.
func (m *Member) token(ctx context.Context, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, stale string) (string, error) {
	m.login.mu.Lock()
	defer m.login.mu.Unlock()
	if m.login.name == "" || m.login.token != stale {
		return m.login.token, nil
	}
	reply := new(pb.AuthenticateResponse)
	err := invoke(ctx, pb.Auth_Authenticate_FullMethodName,
		&pb.AuthenticateRequest{Name: m.login.name, Password: m.login.password}, reply, cc)
	switch {
	case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled):
		m.login.token = ""
	case err != nil:
		return "", fmt.Errorf("lab: log in to %s: %w", m.name, err)
	default:
		m.login.token = reply.GetToken()
	}
	return m.login.token, nil
}

func withToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}
