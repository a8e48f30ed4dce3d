package lab

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

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
