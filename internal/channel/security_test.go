package channel

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/testpki"
	"github.com/quorate/quorate/observe"
)

func publishedAddress(t *testing.T, raw string, tls bool) resolver.Address {
	t.Helper()
	ep := must(endpoint.Parse(raw))
	c := grpctest.NewChannel()
	must(newResolver([]endpoint.Endpoint{ep}, tls, "", nil).Build(resolver.Target{}, c, resolver.BuildOptions{}))
	updates, _ := c.Received()
	return updates[0].Endpoints[0].Addresses[0]
}

// The security is a part of an address's identity; the spelling of the endpoint is not.
func TestSecurityIsAPartOfTheAddress(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		tls  bool
		same bool
	}{
		{"http://h:1", "https://h:1", true, false},
		{"http://h:1", "https://h:1", false, false},
		{"http://h:1", "h:1", true, false},
		{"http://h:1", "h:1", false, true},
		{"https://h:1", "h:1", true, true},
		{"https://h:1", "h:1", false, false},
		{"http://h:1", "http://me:secret@h:1/path", true, true},
		{"unix:s", "unixs:s", true, true},
		{"unix:s", "unixs:s", false, false},
	} {
		t.Run(fmt.Sprintf("%s and %s, TLS %v", tc.a, tc.b, tc.tls), func(t *testing.T) {
			a, b := publishedAddress(t, tc.a, tc.tls), publishedAddress(t, tc.b, tc.tls)
			assert.Equal(t, tc.same, a.Equal(b))
			assert.NotContains(t, a.Attributes.String()+b.Attributes.String(), "%!", "gRPC logs them")
			assert.NotContains(t, b.Attributes.String(), "secret")
		})
	}
}

func TestPermittedEndpoints(t *testing.T) {
	found := []string{"https://a:1", "http://b:1", "c:1", "unix:s", "nonsense://d"}
	for name, tc := range map[string]struct {
		cfg       Config
		next      []string // SetEndpoints
		plaintext []string
	}{
		"no TLS": {cfg: Config{Endpoints: []string{"http://x:1"}}},
		"TLS": {
			cfg:       Config{Endpoints: []string{"x:1"}, TLS: &tls.Config{}},
			plaintext: []string{"http://b:1"},
		},
		"TLS, and all endpoints in plaintext": {
			cfg:       Config{Endpoints: []string{"http://x:1"}, TLS: &tls.Config{}},
			plaintext: []string{"http://b:1"},
		},
		"an https endpoint": {
			cfg:       Config{Endpoints: []string{"http://x:1", "https://y:1"}},
			plaintext: []string{"http://b:1", "c:1", "unix:s"},
		},
		"https first, without a configuration": {
			cfg:       Config{Endpoints: []string{"https://x:1"}},
			next:      []string{"y:1"},
			plaintext: []string{"http://b:1"},
		},
		"the program named it": {
			cfg:       Config{Endpoints: []string{"b:1", "https://y:1"}},
			plaintext: []string{"c:1", "unix:s"},
		},
		"the program named it later": {
			cfg:  Config{Endpoints: []string{"https://y:1"}, TLS: &tls.Config{}},
			next: []string{"http://b:1"},
		},
		"the program changed to https": {
			cfg:       Config{Endpoints: []string{"http://b:1"}},
			next:      []string{"https://b:1"},
			plaintext: []string{"http://b:1", "c:1", "unix:s"},
		},
		"an invalid https endpoint later": {
			cfg:       Config{Endpoints: []string{"http://x:1", "https://y:1"}},
			next:      []string{"http://x:1", "https://y:1,https://z:1"},
			plaintext: []string{"http://b:1", "c:1", "unix:s"},
		},
		"allowed": {cfg: Config{Endpoints: []string{"x:1"}, TLS: &tls.Config{}, AllowInsecureSync: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestChannel(t, tc.cfg)
			if tc.next != nil {
				c.SetEndpoints(tc.next)
			}
			secured := c.Secured()
			c.SetEndpoints(nil)
			assert.Equal(t, secured, c.Secured(), "a reset of connections revokes nothing")

			usable, plaintext := c.SplitFound(found)
			assert.Equal(t, tc.plaintext, plaintext)
			assert.True(t, c.SetFoundEndpoints(found, c.Named()))
			assert.Equal(t, usable, c.Endpoints())
			assert.Equal(t, secured, c.Secured(), "found endpoints change no rule")

			before := c.Named()
			c.SetEndpoints([]string{"a:1"})
			assert.False(t, c.SetFoundEndpoints(found, before))
			assert.Equal(t, []string{"a:1"}, c.Endpoints())
		})
	}
}

// A client with TLS sends no secret in plaintext, wherever the endpoint comes from. It sends it to another endpoint, and
// fails the call at once if there is none. Without a secret, the endpoint is used.
func TestSecretsAreNotSentInPlaintext(t *testing.T) {
	var login Login
	m := startMember(t, "http://", nil)
	ca := testpki.New(t, "CA")
	secure := startMember(t, "https://", ca.Server(t))
	c := newTestChannel(t, Config{
		Endpoints: []string{m.endpoint}, TLS: &tls.Config{RootCAs: ca.Pool()}, Login: func() Login { return login },
	})
	require.NoError(t, get(t, c))
	var tokens int
	m.mu.Lock()
	m.accepts = func(string) bool { tokens++; return true }
	m.mu.Unlock()

	refused := func(err error, what string) {
		t.Helper()
		assert.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
		assert.ErrorContains(t, err, what+" is not sent to "+m.endpoint+" in plaintext")
		assert.NotContains(t, err.Error(), "secret")
	}
	_, err := pb.NewAuthClient(c).UserChangePassword(t.Context(), &pb.AuthUserChangePasswordRequest{Name: "a", Password: "secret"})
	refused(err, "a password")
	login = alice
	refused(c.Authenticate(t.Context()), "a password")
	refused(get(t, c), "a password")
	login = Login{Token: "secret-jwt"}
	refused(get(t, c), "the token")
	refused(get(t, c.Conn()), "the token")
	streams := c.Streams().Retrier(pb.Watch_Watch_FullMethodName)
	ws, streamErr := pb.NewWatchClient(streams).Watch(t.Context())
	if streamErr == nil {
		_, streamErr = ws.Recv()
	}
	refused(streamErr, "the token")
	at := must(c.At(m.endpoint))
	_, err = pb.NewMaintenanceClient(at).Status(t.Context(), &pb.StatusRequest{})
	refused(err, "the token")

	c.SetEndpoints([]string{m.endpoint, secure.endpoint})
	require.NoError(t, streams.Next(t.Context(), streamErr), "another endpoint is secure")
	for _, login = range []Login{alice, {Token: "another-jwt"}} {
		require.NoError(t, get(t, c))
	}
	m.mu.Lock()
	assert.Zero(t, tokens)
	assert.Zero(t, m.authenticates)
	m.mu.Unlock()

	c.SetEndpoints([]string{secure.endpoint})
	require.NoError(t, get(t, c))
}

// settingObserver is called when endpoints are set, before calls can use them.
type settingObserver struct {
	observe.None
	set func()
}

func (o *settingObserver) EndpointsSet([]string) { o.set() }

// A call that begins while a client becomes secured waits for its new endpoints.
func TestCallsWaitWhileAClientBecomesSecured(t *testing.T) {
	m := startMember(t, "http://", nil)
	o := &settingObserver{set: func() {}}
	c := newTestChannel(t, Config{Endpoints: []string{m.endpoint}, Observer: o, Login: func() Login { return Login{Token: "jwt"} }})
	require.NoError(t, get(t, c))
	o.set = func() {
		o.set = func() {}
		_, err := pb.NewKVClient(c).Range(grpctest.Within(t, 100*time.Millisecond), &pb.RangeRequest{}, grpc.WaitForReady(true))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
	}
	c.SetEndpoints([]string{"https://127.0.0.1:1"})
}

// Probes use plaintext connections too, without the token.
func TestProbesInPlaintextCarryNoToken(t *testing.T) {
	s := newTestTokens(&authServer{}, alice)
	require.NoError(t, s.ensure(t.Context()))
	s.secured = func() bool { return true }
	assert.Empty(t, tokenOf(t, s))
}
