package retry

import (
	"context"
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorate/quorate/internal/grpctest"
)

const rpctypesPath = "go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

// declaredErrors reads the texts of the ErrGRPC… variables from the source of the released
// rpctypes, since reflection cannot enumerate a package's variables.
func declaredErrors(t *testing.T) map[string]string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", rpctypesPath).Output()
	require.NoError(t, err)
	pkg, err := build.ImportDir(strings.TrimSpace(string(dir)), 0)
	require.NoError(t, err)
	declared := make(map[string]string)
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, name), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, ident := range spec.Names {
				if !strings.HasPrefix(ident.Name, "ErrGRPC") {
					continue
				}
				if _, alias := spec.Values[i].(*ast.Ident); !alias {
					declared[ident.Name] = declaredText(t, ident.Name, spec.Values[i])
				}
			}
			return false
		})
	}
	require.Greater(t, len(declared), 60, "the source was not understood")
	return declared
}

func declaredText(t *testing.T, name string, value ast.Expr) string {
	t.Helper()
	call, ok := value.(*ast.CallExpr)
	require.True(t, ok, "%s is neither an alias nor made by a call", name)
	text, ok := call.Args[1].(*ast.BasicLit)
	require.True(t, ok, "%s: the message is no literal", name)
	message, err := strconv.Unquote(text.Value)
	require.NoError(t, err)
	return message
}

func TestServerErrorsAreExactlyThoseOfTheRelease(t *testing.T) {
	declared := declaredErrors(t)
	inTable := make(map[string]string)
	for _, r := range ServerErrors() {
		if r.Name != "" {
			require.NotContains(t, inTable, r.Name, "listed twice")
			inTable[r.Name] = r.Message
		}
	}
	assert.Equal(t, declared, inTable)
}

func TestServerErrorsAreWellFormed(t *testing.T) {
	messages := make(map[string]bool)
	for _, r := range ServerErrors() {
		assert.NotEmpty(t, r.Reason, r.Message)
		assert.False(t, r.Prefix, r.Message)
		assert.NotContains(t, []Class{OK, NotSent, Ended, Closed}, r.Class, r.Message)
		assert.False(t, messages[r.Message], "%q is listed twice", r.Message)
		messages[r.Message] = true
	}
}

// authServer answers UserGet, and counts how often it did.
type authServer struct {
	pb.UnimplementedAuthServer
	executed atomic.Int32
	entered  chan struct{} // if not nil, UserGet announces itself here and waits for its context
}

func (s *authServer) UserGet(ctx context.Context, _ *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	s.executed.Add(1)
	if s.entered != nil {
		close(s.entered)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &pb.AuthUserGetResponse{Roles: []string{strings.Repeat("r", 100)}}, nil
}

// serve runs a gRPC server in memory and returns a channel to it.
func serve(t *testing.T, s *authServer, serverOpts ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	grpctest.ServeOn(t, listener, func(r grpc.ServiceRegistrar) {
		if s != nil {
			pb.RegisterAuthServer(r, s)
		}
	}, serverOpts...)
	cc, err := grpc.NewClient("passthrough:///memory",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// brokenCodec is a codec whose output cannot be decoded.
type brokenCodec struct{ encoding.Codec }

func (brokenCodec) Marshal(any) ([]byte, error) { return []byte{0xff}, nil }

func (brokenCodec) Unmarshal([]byte, any) error { return nil }

func (brokenCodec) Name() string { return "proto" }

// localErrorCases provoke every entry of LocalErrors in the released grpc-go,
// and where the other side of the connection makes the same text, that too.
var localErrorCases = []struct {
	name     string
	server   []grpc.ServerOption
	call     []grpc.CallOption
	user     string
	metadata string
	closed   bool
	absent   bool // the server does not know the service, and accepts anything
	byServer bool // the server makes the text; not every version of grpc-go has the client's there
	message  string
	want     Class
	executed int32
}{
	{name: "channel closed", closed: true, message: "grpc: the client connection is closing", want: Closed},
	{
		name: "request over the client's limit", call: []grpc.CallOption{grpc.MaxCallSendMsgSize(10)},
		message: "trying to send message larger than max", want: Definite,
	},
	{
		name: "response over the server's limit", server: []grpc.ServerOption{grpc.MaxSendMsgSize(10)}, byServer: true,
		message: "trying to send message larger than max", want: Ambiguous, executed: 1,
	},
	{
		name: "request cannot be encoded", user: "\xff",
		message: "grpc: error while marshaling", want: Definite,
	},
	{
		name: "unknown compressor", call: []grpc.CallOption{grpc.UseCompressor("none")},
		message: "grpc: Compressor is not installed for requested", want: Definite,
	},
	{name: "metadata that is not ASCII", metadata: "Jürgen", message: "header key \"", want: Definite},
	{
		name: "response over the client's limit", call: []grpc.CallOption{grpc.MaxCallRecvMsgSize(10)},
		message: "grpc: received message ", want: Executed, executed: 1,
	},
	{
		name: "request over the server's limit", server: []grpc.ServerOption{grpc.MaxRecvMsgSize(10)}, byServer: true,
		message: "grpc: received message ", want: Executed,
	},
	{
		name: "response cannot be decoded", server: []grpc.ServerOption{grpc.ForceServerCodec(brokenCodec{})},
		message: "grpc: failed to unmarshal the received message", want: Executed, executed: 1,
	},
	{
		name: "request cannot be decoded", call: []grpc.CallOption{grpc.ForceCodec(brokenCodec{})}, byServer: true,
		message: "grpc: failed to unmarshal the received message", want: Executed,
	},
	{
		name: "success without a response", absent: true,
		server:  []grpc.ServerOption{grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil })},
		message: "cardinality violation: received no response message", want: Executed,
	},
}

// TestLocalErrorsAreThoseOfTheReleasedGRPC proves that the texts which this side makes are recognised in the version
// that the test is compiled with. Those of the other side depend on its version: another text is [Ambiguous].
func TestLocalErrorsAreThoseOfTheReleasedGRPC(t *testing.T) {
	seen := make(map[string]bool)
	for _, tc := range localErrorCases {
		seen[tc.message] = true
		t.Run(tc.name, func(t *testing.T) {
			auth := &authServer{}
			registered := auth
			if tc.absent {
				registered = nil
			}
			cc := serve(t, registered, tc.server...)
			if tc.closed {
				require.NoError(t, cc.Close())
			}
			ctx := grpctest.Within(t, 30*time.Second)
			if tc.metadata != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "user", tc.metadata)
			}
			user := tc.user
			if user == "" {
				user = "a user with a long name"
			}
			_, err := pb.NewAuthClient(cc).UserGet(ctx, &pb.AuthUserGetRequest{Name: user}, tc.call...)
			require.Error(t, err)
			want := tc.want
			if !strings.HasPrefix(status.Convert(err).Message(), tc.message) {
				assert.True(t, tc.byServer, "%v", err)
				want = Ambiguous
			}
			assert.Equal(t, want, Classify(err, Evidence{Sent: true, Answered: tc.byServer}), "%v", err)
			assert.Equal(t, tc.executed, auth.executed.Load())
		})
	}
	seen[requireDraining(t)] = true
	for _, r := range LocalErrors() {
		// TestWebServerResponses provokes what is not gRPC's.
		assert.True(t, seen[r.Message] || strings.HasPrefix(r.Message, notGRPC), "nothing provokes %q", r.Message)
		assert.True(t, r.Prefix, r.Message)
		assert.NotEmpty(t, r.Reason, r.Message)
	}
}

// If grpc-go words a text differently, no outcome that was unknown counts as known, and no mutating call is repeated.
func TestLocalErrorsFallBackToTheirCode(t *testing.T) {
	for _, r := range LocalErrors() {
		known, reworded := status.Error(r.Code, r.Message), status.Error(r.Code, "in other words: "+r.Message)
		if OutcomeOf(reworded) != OutcomeUnknown {
			assert.Equal(t, OutcomeOf(known), OutcomeOf(reworded), r.Message)
		}
		action := Decide(Classify(reworded, Evidence{Sent: true}), Mutating)
		assert.Contains(t, []Action{Return, ReturnUnknown}, action, r.Message)
	}
}

// A call that is under way when its channel is closed may have been executed,
// and gets the same error as one that never started.
func TestClosingTheChannelUnderACall(t *testing.T) {
	auth := &authServer{entered: make(chan struct{})}
	cc := serve(t, auth)
	result := make(chan error, 1)
	go func() {
		_, err := pb.NewAuthClient(cc).UserGet(t.Context(), &pb.AuthUserGetRequest{Name: "u"})
		result <- err
	}()
	<-auth.entered
	require.NoError(t, cc.Close())
	err := <-result
	assert.Equal(t, Closed, Classify(err, Evidence{Sent: true}), "%v", err)
	assert.Equal(t, OutcomeUnknown, OutcomeOf(err))
}

// What a server library says of a method that it does not have.
func TestUnimplementedMethodIsNotExecuted(t *testing.T) {
	_, err := pb.NewKVClient(serve(t, &authServer{})).Put(t.Context(), &pb.PutRequest{Key: []byte("k")})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	assert.Equal(t, OutcomeNotExecuted, OutcomeOf(err))
}

// Its error arrives as a status.
func TestConnectionThatCannotBeMadeSendsNothing(t *testing.T) {
	refused := errors.New("connection refused")
	cc, err := grpc.NewClient("passthrough:///nowhere",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, refused }))
	require.NoError(t, err)
	defer func() { require.NoError(t, cc.Close()) }()
	_, err = pb.NewKVClient(cc).Put(t.Context(), &pb.PutRequest{Key: []byte("k")})
	require.ErrorContains(t, err, refused.Error())
	class := Classify(err, Evidence{})
	assert.Equal(t, NotSent, class)
	assert.Equal(t, Again, Decide(class, Mutating))
}

// webServer returns a channel to a server of web pages that answers everything with
// the given code.
func webServer(t *testing.T, code int) *grpc.ClientConn {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<html></html>")
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	cc, err := grpc.NewClient("passthrough:///"+server.Listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, cc.Close())
		server.Close()
	})
	return cc
}

func TestWebServerResponses(t *testing.T) {
	for _, tt := range []struct {
		status int
		code   codes.Code
		want   Class
		noGRPC bool
	}{
		{http.StatusOK, codes.Unknown, Ambiguous, true},
		{http.StatusFound, codes.Unknown, Ambiguous, true},
		{http.StatusBadRequest, codes.Internal, Refused, true},
		{http.StatusUnauthorized, codes.Unauthenticated, Refused, true},
		{http.StatusForbidden, codes.PermissionDenied, Refused, true},
		{http.StatusNotFound, codes.Unimplemented, Refused, true},
		{http.StatusMethodNotAllowed, codes.Unknown, Refused, true},
		{http.StatusRequestTimeout, codes.Unknown, Ambiguous, true},
		{http.StatusInternalServerError, codes.Unknown, Ambiguous, true},
		{http.StatusTooManyRequests, codes.Unavailable, Ambiguous, false},
		{http.StatusBadGateway, codes.Unavailable, Ambiguous, false},
		{http.StatusServiceUnavailable, codes.Unavailable, Ambiguous, false},
		{http.StatusGatewayTimeout, codes.Unavailable, Ambiguous, false},
	} {
		t.Run(http.StatusText(tt.status), func(t *testing.T) {
			_, err := pb.NewAuthClient(webServer(t, tt.status)).UserGet(t.Context(), &pb.AuthUserGetRequest{})
			assert.Equal(t, tt.code, status.Code(err), "%v", err)
			assert.Equal(t, tt.want, Classify(err, Evidence{Sent: true}), "%v", err)
			assert.Equal(t, tt.noGRPC, SpeaksNoGRPC(err), "%v", err)
			assert.Equal(t, codes.Unavailable, CodeOf(err), "reads are repeated")
		})
	}
	assert.False(t, SpeaksNoGRPC(nil))
}

// requireDraining calls a server that refuses every stream by ending the connection, as a proxy does
// whose connections are full. It checks the error, after gRPC's own retry, and returns its text.
func requireDraining(t *testing.T) (message string) {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///memory",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			client, server := net.Pipe()
			go refuseStreams(server)
			return client, nil
		}))
	require.NoError(t, err)
	defer func() { require.NoError(t, cc.Close()) }()
	_, err = pb.NewKVClient(cc).Put(t.Context(), &pb.PutRequest{Key: []byte("k")}, grpc.WaitForReady(true))
	message = status.Convert(err).Message()
	assert.Equal(t, "the connection is draining", message)
	assert.Equal(t, Overloaded, Classify(err, Evidence{Sent: true}))
	assert.Equal(t, OutcomeNotExecuted, OutcomeOf(err))
	return message
}

// refuseStreams serves a connection until it has a request, and then sends a GOAWAY for all streams. If it came before
// the request, gRPC's error might be EOF.
func refuseStreams(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	if framer.WriteSettings() != nil {
		return
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if _, ok := frame.(*http2.DataFrame); ok && framer.WriteGoAway(0, http2.ErrCodeNo, nil) != nil {
			return
		}
	}
}
