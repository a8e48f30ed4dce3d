package retry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

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
