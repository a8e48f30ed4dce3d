package doctor

import (
	"context"
	"errors"
	"net"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/endpoint"
)

// open makes the gRPC connection of the visit. It connects with the first call.
func (v *visit) open() error {
	opts := []grpc.DialOption{
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return v.dial(ctx) }),
	}
	if v.tls != nil { // the name in v.tls is the authority
		opts = append(opts, grpc.WithTransportCredentials(credentials.NewTLS(v.tls)))
	} else {
		opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(v.endpoint.ServerName))
	}
	var err error
	v.conn, err = grpc.NewClient("passthrough:///"+v.endpoint.Address, opts...)
	return err
}

// errPlaintext is the failure of an endpoint to which a client sends neither a token nor a password.
var errPlaintext = errors.New("neither a token nor a password is sent to it in plaintext, because the client is configured for TLS")

// signed returns ctx with the token, if there is one.
func (v *visit) signed(ctx context.Context) context.Context {
	if v.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, v.token)
}

func (v *visit) authenticate(ctx context.Context) {
	if err := v.open(); err != nil {
		v.fail(stepStatus, err)
		return
	}
	login := v.cfg.Client
	if v.tls == nil && v.cfg.secured() && login.Token+login.Username != "" {
		v.fail(stepAuth, errPlaintext)
		return
	}
	if v.token = login.Token; login.Username == "" {
		return
	}
	reply, err := pb.NewAuthClient(v.conn).Authenticate(ctx, &pb.AuthenticateRequest{Name: login.Username, Password: login.Password})
	switch {
	case err == nil:
		v.token = reply.Token
	case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled):
		v.authErr = err
	default:
		v.fail(stepAuth, err)
	}
}

func (v *visit) askStatus(ctx context.Context) {
	reply, err := pb.NewMaintenanceClient(v.conn).Status(v.signed(ctx), &pb.StatusRequest{})
	if err != nil {
		v.fail(stepStatus, err)
		return
	}
	v.status = reply
}

// again asks for the status once more. If the member does not answer any more, that is its failure.
func (v *visit) again(ctx context.Context) {
	if v.status == nil {
		return
	}
	v.earlier = v.status
	v.within(ctx, v.askStatus)
	if v.failed == stepNone && v.readErr != nil {
		v.within(ctx, v.readAll)
	}
}

// readAll measures linearizable reads, and asks the member for the membership as it knows it.
func (v *visit) readAll(ctx context.Context) {
	strict := metadata.AppendToOutgoingContext(v.signed(ctx), rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	v.read = 0
	for range samples {
		begin := time.Now()
		_, err := pb.NewKVClient(v.conn).Range(strict, &pb.RangeRequest{Key: []byte(readKey), CountOnly: true})
		if status.Code(err) == codes.PermissionDenied {
			err = nil // the member works: it checks permissions after the read
		}
		v.readErr = err
		if err != nil {
			break
		}
		if took := time.Since(begin); v.read == 0 || took < v.read {
			v.read = took
		}
	}
	if members, err := pb.NewClusterClient(v.conn).MemberList(v.signed(ctx), &pb.MemberListRequest{}); err == nil {
		hidePasswords(members.GetMembers())
		v.members = members
	}
}

// hidePasswords removes user names and passwords from the URLs of members: reports and bundles show the URLs.
func hidePasswords(members []*pb.Member) {
	for _, m := range members {
		for _, urls := range [][]string{m.ClientURLs, m.PeerURLs} {
			for i, url := range urls {
				urls[i] = endpoint.Redact(url)
			}
		}
	}
}
