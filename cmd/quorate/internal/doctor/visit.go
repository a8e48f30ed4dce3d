package doctor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
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
	"github.com/quorate/quorate/internal/proxy"
)

// step is a step of examining an endpoint that may fail.
type step string

const (
	stepNone   step = ""
	stepName   step = "name"
	stepTCP    step = "tcp"
	stepTLS    step = "tls"
	stepAuth   step = "auth"
	stepStatus step = "status"
)

const (
	samples       = 3 // reads, of which the fastest counts
	readKey       = "health"
	maxAdvertised = 32 // advertised URLs
)

// visit is the result of examining an endpoint.
type visit struct {
	cfg      Config
	endpoint endpoint.Endpoint
	tls      *tls.Config // nil for plaintext
	via      *url.URL    // the proxy, nil for none

	// member is the one that advertises the URL; nil for an endpoint.
	member *pb.Member

	failed step // the first step that failed, and why
	err    error
	speaks string // after a failed handshake or request: what the server speaks, "TLS" or "plaintext"

	resolve, connect, handshake time.Duration
	certificates                []*x509.Certificate
	demanded                    bool // the server asked for a certificate of the client, and there is none
	web                         web

	conn    *grpc.ClientConn
	token   string
	authErr error // of an authentication that does not end the visit: it is off

	status  *pb.StatusResponse
	earlier *pb.StatusResponse // the status before, if it was asked for again
	read    time.Duration      // the fastest linearizable read
	readErr error
	members *pb.MemberListResponse
	hash    *pb.HashKVResponse
	hashErr error
}

func newVisit(cfg Config, ep endpoint.Endpoint) *visit {
	v := &visit{cfg: cfg, endpoint: ep, via: proxy.FromEnvironment(ep.Address)}
	if ep.UseTLS(cfg.Client.TLS != nil) {
		v.tls = cmp.Or(cfg.Client.TLS.Clone(), &tls.Config{})
		v.tls.ServerName = hostOf(ep.ServerName) // as the client does
	}
	return v
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// quoted returns an argument of a command that an operator may copy: a member can advertise a host that a shell would execute.
func quoted(argument string) string {
	if strings.ContainsAny(argument, " $&;|<>(){}`'\"\\*?!#~\n") {
		return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
	}
	return argument
}

// etcdctl returns a command for the endpoint.
func (v *visit) etcdctl(command string) string {
	return "etcdctl --endpoints=" + quoted(v.endpoint.String()) + " " + command
}

func (v *visit) close() {
	if v.conn != nil {
		_ = v.conn.Close() // nothing is under way
	}
}

// fail notes the step that failed; later ones are not done.
func (v *visit) fail(s step, err error) { v.failed, v.err = s, err }

// examine does one step after the other. It sends HTTP requests and calls at the same time, so that an endpoint that
// answers neither takes one timeout.
func (v *visit) examine(ctx context.Context) {
	v.steps(ctx, v.findName, v.findServer)
	if v.failed == stepNone {
		var http sync.WaitGroup
		http.Go(func() { v.within(ctx, v.askWeb) })
		v.steps(ctx, v.authenticate, v.askStatus, v.readAll)
		http.Wait()
	}
	if v.failed == stepTLS || (v.failed == stepStatus || v.failed == stepAuth) && !timedOut(v.err) {
		v.within(ctx, v.findProtocol)
	}
}

// steps executes one after the other, until one fails.
func (v *visit) steps(ctx context.Context, all ...func(context.Context)) {
	for _, do := range all {
		if v.failed == stepNone {
			v.within(ctx, do)
		}
	}
}

// within executes a step within its timeout.
func (v *visit) within(ctx context.Context, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	do(ctx)
}

func (v *visit) findName(ctx context.Context) {
	network, address := endpoint.DialTarget(v.endpoint.Address)
	host := hostOf(address)
	if network == "unix" || host == "" || net.ParseIP(host) != nil || v.via != nil { // "" is this machine; a proxy resolves it
		return
	}
	begin := time.Now()
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		v.fail(stepName, err)
	}
	v.resolve = time.Since(begin)
}

// dial connects as the client does.
func (v *visit) dial(ctx context.Context) (net.Conn, error) {
	network, address := endpoint.DialTarget(v.endpoint.Address)
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	if v.via != nil {
		return proxy.Dial(ctx, v.via, address, dial)
	}
	return dial(ctx, address)
}

// findServer makes a connection as the client does, with TLS where the client has it, and sends nothing on it.
func (v *visit) findServer(ctx context.Context) {
	begin := time.Now()
	conn, err := v.dial(ctx)
	if err != nil {
		v.fail(stepTCP, err)
		return
	}
	defer func() { _ = conn.Close() }()
	v.connect = time.Since(begin)
	if v.tls != nil {
		v.shakeHands(ctx, conn)
	}
}

func (v *visit) shakeHands(ctx context.Context, conn net.Conn) {
	cfg := v.tls.Clone()
	cfg.NextProtos = []string{"h2"}
	if _, given := clientCertificate(cfg); !given {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			v.demanded = true
			return new(tls.Certificate), nil
		}
	}
	begin := time.Now()
	secure := tls.Client(conn, cfg)
	err := secure.HandshakeContext(ctx)
	v.handshake = time.Since(begin)
	v.certificates = secure.ConnectionState().PeerCertificates
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		v.certificates = untrusted.UnverifiedCertificates
	}
	if err != nil {
		v.fail(stepTLS, err)
	}
}

// findProtocol determines whether the server expects TLS on a plaintext endpoint, or the reverse.
func (v *visit) findProtocol(ctx context.Context) {
	if v.tls != nil {
		if v.certificates != nil {
			return
		}
		if a := v.request(ctx, nil, "/version"); a.err == nil && (a.status != http.StatusBadRequest || !bytes.Contains(a.body, []byte(tlsWanted))) {
			v.speaks = "plaintext"
		}
		return
	}
	conn, err := v.dial(ctx)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).HandshakeContext(ctx) // nothing is sent on it
	if err == nil || isAlert(err) {
		v.speaks = "TLS"
	}
}

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
