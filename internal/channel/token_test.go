package channel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/retry"
)

// authServer issues numbered tokens; it can be held and made to fail.
type authServer struct {
	mu    sync.Mutex
	calls int
	err   error
	hold  chan struct{}
}

func (s *authServer) authenticate(ctx context.Context, _, _ string) (string, error) {
	s.mu.Lock()
	s.calls++
	n, err, hold := s.calls, s.err, s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return fmt.Sprintf("token-%d", n), err
}

// token is a Config.TokenSource.
func (s *authServer) token(ctx context.Context) (string, error) { return s.authenticate(ctx, "", "") }

func newTestTokens(srv *authServer, login Login) *tokenSource {
	s := newTokenSource(Config{Login: func() Login { return login }}, nil)
	s.authenticate = srv.authenticate
	return s
}

func fromSource() Login { return Login{FromSource: true} }

var alice = Login{Username: "alice", Password: "secret"}

func tokenOf(t *testing.T, s *tokenSource) string {
	t.Helper()
	md := must(s.GetRequestMetadata(t.Context()))
	return md[rpctypes.TokenFieldNameGRPC]
}

// carrying returns an attempt with the given token that reached an unknown member.
func carrying(t *testing.T, used *token) *attempt {
	t.Helper()
	a := newAttempt(t)
	a.token.Store(used)
	return a
}

// assertReplaces checks what the refusal of a token at an unknown member leads to.
func assertReplaces(t *testing.T, s *tokenSource, used *token, refusal error, want renewal) {
	t.Helper()
	got := s.invalidate(carrying(t, used), refusal)
	assert.Equal(t, want, got)
	if got != notRenewed {
		assert.NoError(t, s.ensure(t.Context()))
	}
}

func TestConcurrentRefusalsFetchOneToken(t *testing.T) {
	for name, tokens := range map[string]func(*authServer) *tokenSource{
		"of a password": func(srv *authServer) *tokenSource { return newTestTokens(srv, alice) },
		"of a source":   func(srv *authServer) *tokenSource { return newSourceTokens(srv.token) },
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			srv := &authServer{}
			s := tokens(srv)
			require.NoError(t, s.ensure(t.Context()))
			require.NoError(t, s.ensure(t.Context()))
			assert.Equal(t, "token-1", tokenOf(t, s))
			stale := s.current.Load()
			srv.hold = make(chan struct{})
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() { assertReplaces(t, s, stale, rpctypes.ErrGRPCInvalidAuthToken, renewed) })
			}
			synctest.Wait()
			close(srv.hold)
			wg.Wait()
			assert.Equal(t, 2, srv.calls)
			assert.Equal(t, "token-2", tokenOf(t, s))

			// A late refusal of the first token finds the second.
			assertReplaces(t, s, stale, rpctypes.ErrGRPCInvalidAuthToken, renewed)
			assert.Equal(t, 2, srv.calls)
		})
	}
}

func TestEndOfOneCallerDoesNotFailAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &authServer{hold: make(chan struct{})}
		s := newTestTokens(srv, alice)
		cancellable, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- s.ensure(cancellable) }()
		synctest.Wait()
		second := make(chan error, 1)
		go func() { second <- s.ensure(t.Context()) }()
		synctest.Wait()
		cancel()
		assert.ErrorIs(t, <-first, context.Canceled)
		close(srv.hold)
		assert.NoError(t, <-second)
		assert.Equal(t, 1, srv.calls)
	})
}

// Without waiters the token request ends; otherwise synctest would report its goroutine.
func TestAbandonedFetchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &authServer{hold: make(chan struct{})}
		s := newTestTokens(srv, alice)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.ensure(ctx) }()
		synctest.Wait()
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
		synctest.Wait()
		assert.Empty(t, tokenOf(t, s))
	})
}

func TestTokenOfAClusterWithoutAuth(t *testing.T) {
	srv := &authServer{err: rpctypes.ErrGRPCAuthNotEnabled}
	s := newTestTokens(srv, alice)
	require.NoError(t, s.ensure(t.Context()))
	require.NoError(t, s.ensure(t.Context()))
	assert.Equal(t, 1, srv.calls)
	assert.Empty(t, tokenOf(t, s))

	// Auth is enabled meanwhile: the server misses the token.
	srv.err = nil
	assertReplaces(t, s, s.current.Load(), rpctypes.ErrGRPCUserEmpty, renewed)
	assert.Equal(t, "token-2", tokenOf(t, s))
}

func TestUsersOwnToken(t *testing.T) {
	srv := &authServer{err: errors.New("must not be called")}
	login := Login{Token: "jwt-1"}
	s := newTestTokens(srv, login)
	s.login = func() Login { return login }
	require.NoError(t, s.ensure(t.Context()))
	used := s.current.Load()
	assert.Equal(t, "jwt-1", tokenOf(t, s))

	assertReplaces(t, s, used, rpctypes.ErrGRPCInvalidAuthToken, notRenewed)

	login.Token = "jwt-2"
	assertReplaces(t, s, used, rpctypes.ErrGRPCInvalidAuthToken, renewed)
	assert.Equal(t, "jwt-2", tokenOf(t, s))
	assert.Zero(t, srv.calls)
}

func TestAuthenticateCarriesNoToken(t *testing.T) {
	s := newTestTokens(&authServer{}, alice)
	require.NoError(t, s.ensure(t.Context()))
	a := newAttempt(t)
	a.anonymous = true
	md := must(s.GetRequestMetadata(a.ctx))
	assert.NotContains(t, md, rpctypes.TokenFieldNameGRPC)
}

// The version is a header of the connection, the token an option of the call: calls, streams and
// probes carry both.
func TestRequestsCarryVersionAndToken(t *testing.T) {
	m := startMember(t, "http://", nil)
	var header metadata.MD
	seen := func() (token string) {
		t.Helper()
		m.mu.Lock()
		defer m.mu.Unlock()
		assert.Equal(t, []string{version.APIVersion}, header.Get(rpctypes.MetadataClientAPIVersionKey))
		token = strings.Join(header.Get(rpctypes.TokenFieldNameGRPC), " ")
		header = nil
		return token
	}
	m.header = func(md metadata.MD) { header = md }
	var login Login
	c := newTestChannel(t, Config{Endpoints: []string{m.endpoint}, Login: func() Login { return login }})
	require.NoError(t, get(t, c))
	assert.Empty(t, seen())

	login = Login{Token: "jwt"}
	c.LoginChanged()
	require.NoError(t, get(t, c))
	assert.Equal(t, "jwt", seen())
	require.NoError(t, get(t, c.Conn()))
	assert.Equal(t, "jwt", seen())
	at := must(c.At(m.endpoint))
	require.NoError(t, get(t, at))
	assert.Equal(t, "jwt", seen())
	ws := must(watch(withDeadline(t), c.Streams()))
	require.NoError(t, ws.Send(&pb.WatchRequest{}))
	must(ws.Recv())
	assert.Equal(t, "jwt", seen())

	probed := must(grpc.NewClient(strings.TrimPrefix(m.endpoint, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer probed.Close()
	c.policyOptions(Config{}).Service.Probe(withDeadline(t), probed, func(health.Report) {})
	m.mu.Lock()
	defer m.mu.Unlock()
	assert.Equal(t, []string{"jwt"}, header.Get(rpctypes.TokenFieldNameGRPC))
}

// usersCredentials are a program's own, for a proxy in front of etcd.
type usersCredentials map[string]string

func (c usersCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return c, nil
}

func (usersCredentials) RequireTransportSecurity() bool { return false }

func TestUsersCredentialsTravelBesideTheToken(t *testing.T) {
	m := startMember(t, "http://", nil)
	var header metadata.MD
	m.header = func(md metadata.MD) { header = md }
	creds := grpc.PerRPCCredentials(usersCredentials{"proxy": "alice"})
	inDial := []grpc.DialOption{grpc.WithDefaultCallOptions(creds)}
	inInterceptor := []grpc.DialOption{grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(ctx, method, req, reply, cc, append(opts, creds)...)
		})}
	for _, options := range [][]grpc.DialOption{inDial, inInterceptor} {
		c := newTestChannel(t, Config{
			Endpoints: []string{m.endpoint}, Login: func() Login { return Login{Token: "jwt"} }, DialOptions: options,
		})
		require.NoError(t, get(t, c))
		m.mu.Lock()
		assert.Equal(t, []string{"alice"}, header.Get("proxy"))
		assert.Equal(t, []string{"jwt"}, header.Get(rpctypes.TokenFieldNameGRPC))
		m.mu.Unlock()
	}
}

func TestInvalidateToken(t *testing.T) {
	own := newToken("own", Login{})
	for _, tt := range []struct {
		name    string
		login   Login
		used    *token
		refusal error
		want    bool
		kept    bool
	}{
		{"a token of a password", alice, own, rpctypes.ErrInvalidAuthToken, true, false},
		{"a token that was replaced meanwhile", alice, newToken("older", Login{}), rpctypes.ErrInvalidAuthToken, true, true},
		{"no token, although there can be one", alice, noToken, rpctypes.ErrUserEmpty, true, true},
		{"the token of a stream that the program opened", alice, nil, rpctypes.ErrInvalidAuthToken, true, false},
		{"a request that arrived before authentication was on", alice, own, rpctypes.ErrUserEmpty, true, true},
		{"the only token there is", Login{Token: "own"}, own, rpctypes.ErrInvalidAuthToken, false, true},
		{"a token that the user replaced", Login{Token: "next"}, own, rpctypes.ErrInvalidAuthToken, true, true},
		{"nobody's", Login{}, noToken, rpctypes.ErrUserEmpty, false, true},
		{"a certificate, while users change", Login{}, noToken, rpctypes.ErrAuthOldRevision, true, true},
		{"a certificate that is refused", Login{}, noToken, rpctypes.ErrInvalidAuthToken, false, true},
		{"a denial, as old servers answer a bad token", alice, own, rpctypes.ErrPermissionDenied, true, false},
		{"a denial, and the other token may have expired too", alice, newToken("older", Login{}), rpctypes.ErrPermissionDenied, true, false},
		{"a denial of the only token there is", Login{Token: "own"}, own, rpctypes.ErrPermissionDenied, false, true},
		{"a denial without a user", Login{}, noToken, rpctypes.ErrPermissionDenied, false, true},
		{"another refusal", alice, own, rpctypes.ErrCompacted, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTestTokens(&authServer{}, tt.login)
			s.current.Store(own)
			c := &Caller{client: &client{config: retry.DefaultConfig(), tokens: s}}
			retrier := c.Retrier(pb.Watch_Watch_FullMethodName)
			if tt.used != nil {
				retrier.opened = newAttempt(t)
				retrier.opened.token.Store(tt.used)
			}
			again, another := retrier.InvalidateToken(tt.refusal)
			assert.Equal(t, []bool{tt.want, tt.want}, []bool{again, another})
			assert.Equal(t, tt.kept, s.current.Load() == own)
		})
	}
}

func newSourceTokens(source func(context.Context) (string, error)) *tokenSource {
	return newTokenSource(Config{Login: fromSource, TokenSource: source}, nil)
}

// Even a source that ignores its context, and has no waiters left, is not called a second time
// before it returns.
func TestTokenSourceIsNeverCalledConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, calls atomic.Int64
		release := make(chan struct{})
		s := newSourceTokens(func(context.Context) (string, error) {
			assert.EqualValues(t, 1, running.Add(1))
			defer running.Add(-1)
			<-release
			calls.Add(1)
			return "token", nil
		})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, s.ensure(ctx), context.DeadlineExceeded)
			cancel()
		}
		close(release)
		require.NoError(t, s.ensure(t.Context()))
		synctest.Wait()
		assert.EqualValues(t, 2, calls.Load(), "the abandoned call, and one for the waiters")
	})
}

func TestErrorsOfTheTokenSource(t *testing.T) {
	src := &authServer{err: errors.New("vault is sealed")}
	s := newSourceTokens(src.token)
	err := s.ensure(t.Context())
	require.ErrorIs(t, err, src.err)
	assert.EqualError(t, err, "etcdclient: Config.TokenSource: vault is sealed")

	s.source = func(context.Context) (string, error) { return "", nil }
	assert.ErrorIs(t, s.ensure(t.Context()), errEmptyToken)
}

func TestLoginChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, login := new(authServer), alice
		s := newTestTokens(srv, alice)
		s.login = func() Login { return login }
		require.NoError(t, s.ensure(t.Context()))

		login = Login{Username: "bob", Password: "secret"}
		s.loginChanged()
		assert.Empty(t, tokenOf(t, s), "the old login is no longer used")
		require.NoError(t, s.ensure(t.Context()))
		assert.Equal(t, "token-2", tokenOf(t, s))

		login = Login{Token: "jwt"}
		s.loginChanged()
		assert.Equal(t, "jwt", tokenOf(t, s))

		login = Login{}
		s.loginChanged()
		require.NoError(t, s.ensure(t.Context()))
		assert.Empty(t, tokenOf(t, s))

		superseded, err := s.fetch(t.Context(), alice)
		require.NoError(t, err)
		assert.True(t, superseded, "the login changed before the fetch began")
		assert.Empty(t, tokenOf(t, s))
	})
}

// The backoff after useless tokens ends with their login: a refused token of the next one is replaced.
func TestLoginChangedAfterUselessTokens(t *testing.T) {
	for name, change := range map[string]func(*tokenSource){
		"by a method": (*tokenSource).loginChanged,
		"by a field":  func(s *tokenSource) { s.login = func() Login { return Login{Username: "bob", Password: "secret"} } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestTokens(new(authServer), alice)
				refuse := func() {
					require.NoError(t, s.ensure(t.Context()))
					s.invalidate(carrying(t, s.current.Load()), rpctypes.ErrGRPCInvalidAuthToken)
				}
				for range maxTokenRefreshes + 2 {
					refuse()
				}
				require.NotNil(t, s.current.Load(), "it stays for a while")
				change(s)
				refuse()
				require.Nil(t, s.current.Load())
			})
		})
	}
}

// A caller that waits for a token when the login changes gets that of the new login.
func TestLoginChangedWhileATokenIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var login atomic.Pointer[Login]
		login.Store(&alice)
		asked := make(chan string, 2)
		s := newTokenSource(Config{Login: func() Login { return *login.Load() }}, nil)
		s.authenticate = func(ctx context.Context, name, _ string) (string, error) {
			if asked <- name; name == "alice" {
				<-ctx.Done() // this login is no longer wanted
			}
			return name + "'s", ctx.Err()
		}
		done := make(chan error, 1)
		go func() { done <- s.ensure(t.Context()) }()
		synctest.Wait()
		login.Store(&Login{Username: "bob", Password: "secret"})
		s.loginChanged()
		require.NoError(t, <-done)
		assert.Equal(t, "bob's", tokenOf(t, s))
		assert.Equal(t, []string{"alice", "bob"}, []string{<-asked, <-asked})
	})
}

func TestEachAttemptFetchesAMissingToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &authServer{}
		conn := &scriptedConn{script: []outcome{unsent, success}}
		c := newTestCaller(conn, nil)
		c.tokens.login, c.tokens.authenticate = func() Login { return alice }, srv.authenticate
		conn.during = func(context.Context) {
			require.NotNil(t, c.tokens.current.Load(), "attempt %d", conn.calls)
			if conn.calls == 1 {
				c.tokens.current.Store(nil) // another call's was refused
			}
		}
		require.NoError(t, rangeOn(t.Context(), c))
		assert.Equal(t, 2, conn.calls)
	})
}

// A call without a deadline that waits for a token ends with the client.
func TestCloseEndsCallsThatWaitForAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c, err := New(Config{
			Endpoints: []string{"http://member"}, Logger: zap.NewNop,
			Login: fromSource, TokenSource: func(ctx context.Context) (string, error) {
				calls++
				<-ctx.Done()
				return "", ctx.Err()
			},
		})
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- readK(t, c) }()
		synctest.Wait()
		require.NoError(t, c.Close())
		start := time.Now()
		assert.Equal(t, codes.Canceled, status.Code(<-ended))
		assert.Equal(t, codes.Canceled, status.Code(readK(t, c)))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, calls, "a closed client needs no token")
	})
}

// timedTokens makes a cluster issue tokens that contain the time at which they were issued.
type timedTokens struct {
	issued  atomic.Int64
	expired atomic.Pointer[time.Time] // older tokens are refused
	// refuses reports whether a member does not know a token of the given age; nil for none.
	refuses func(m *fakeetcd.Member, age time.Duration) bool
}

func (s *timedTokens) install(cluster *fakeetcd.Cluster) {
	cluster.On("Authenticate", func(call *fakeetcd.Call) {
		time.Sleep(60 * time.Millisecond) // bcrypt
		s.issued.Add(1)
		token := strconv.FormatInt(time.Now().UnixNano(), 10)
		call.Answer(&pb.AuthenticateResponse{Header: &pb.ResponseHeader{}, Token: token}, nil)
	})
	for _, method := range []string{"Put", "Watch"} {
		cluster.On(method, func(call *fakeetcd.Call) {
			md, _ := metadata.FromIncomingContext(call.Context())
			nanos, _ := strconv.ParseInt(slices.Concat(md.Get(rpctypes.TokenFieldNameGRPC), []string{"0"})[0], 10, 64)
			at, expired := time.Unix(0, nanos), s.expired.Load()
			if expired != nil && (at.Before(*expired) || s.refuses(call.Member, time.Since(at))) {
				call.Answer(nil, rpctypes.ErrGRPCInvalidAuthToken)
			}
		})
	}
}

// expire makes every token issued so far invalid, and old.
func (s *timedTokens) expire() {
	time.Sleep(tokenSettles)
	s.forget()
}

// forget makes every token issued so far invalid.
func (s *timedTokens) forget() {
	time.Sleep(time.Millisecond)
	now := time.Now()
	s.issued.Store(0)
	s.expired.Store(&now)
}

// inBubbleWithTokens is inBubble with a user whose tokens s issues.
func inBubbleWithTokens(t *testing.T, s *timedTokens, test func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel)) {
	t.Helper()
	inBubble(t, func(cfg *Config) { cfg.Login = func() Login { return alice } },
		func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) { test(t, cluster, c) },
		s.install)
}

// A member that applies the log late does not know a new token yet. The token is used at the
// other members, and no call fails, also when the only member that knew it from the start has lost its leader.
func TestTokenThatMembersLearnLate(t *testing.T) {
	for _, lag := range []time.Duration{0, 100 * time.Millisecond, 2 * time.Second} {
		for _, late := range []int{1, 2} {
			t.Run(fmt.Sprintf("%d members by %v", late, lag), func(t *testing.T) {
				s := new(timedTokens)
				inBubbleWithTokens(t, s, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel) {
					s.refuses = func(m *fakeetcd.Member, age time.Duration) bool {
						return age < lag && slices.Index(cluster.Members(), m) >= 3-late
					}
					s.expire()
					callFor(3*time.Second, 4, 150*time.Millisecond, func() {
						assert.NoError(t, put(t.Context(), c))
						assert.NoError(t, put(t.Context(), c.Conn()))
					})
					assert.EqualValues(t, 1, s.issued.Load())

					cluster.On("*", func(call *fakeetcd.Call) {
						if call.Member == cluster.Member(0) {
							call.Answer(nil, rpctypes.ErrGRPCNoLeader)
						}
					})
					callFor(time.Second, 1, 50*time.Millisecond, func() { assert.NoError(t, put(t.Context(), c)) })
				})
			})
		}
	}
}

// callFor calls f from several goroutines, again after a pause, for a time.
func callFor(length time.Duration, callers int, pause time.Duration, f func()) {
	var wg sync.WaitGroup
	for start := time.Now(); callers > 0; callers-- {
		wg.Go(func() {
			for ; time.Since(start) < length; time.Sleep(pause) {
				f()
			}
		})
	}
	wg.Wait()
}

// A new token that every member refuses is replaced, and so is an old one that a single member
// refuses.
func TestTokenThatIsRefusedForGood(t *testing.T) {
	s := &timedTokens{refuses: func(*fakeetcd.Member, time.Duration) bool { return false }}
	inBubbleWithTokens(t, s, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel) {
		s.expire()
		before := cluster.Count("Put")
		require.NoError(t, put(t.Context(), c))
		assert.Equal(t, 2, cluster.Count("Put")-before)
		assert.EqualValues(t, 1, s.issued.Load())

		for range 3 {
			s.forget()
			before := cluster.Count("Put")
			require.NoError(t, put(t.Context(), c))
			assert.EqualValues(t, 1, s.issued.Load())
			assert.Equal(t, 4, cluster.Count("Put")-before, "each member refuses it once")
		}

		s.forget()
		cluster.Member(1).Stop()
		cluster.Member(2).Stop()
		synctest.Wait()
		require.NoError(t, put(t.Context(), c))
		assert.EqualValues(t, 1, s.issued.Load(), "the others cannot be asked")

		at := must(c.At(cluster.Member(0).Endpoint()))
		s.forget()
		require.NoError(t, put(t.Context(), at))
		assert.EqualValues(t, 1, s.issued.Load(), "there is no other")
	})
}

// While every new token is refused, as with keys of JWTs that do not match, few are requested, however many calls are made.
func TestTokensThatAreRefusedAreFew(t *testing.T) {
	for callers, pause := range map[int]time.Duration{20: 100 * time.Millisecond, 1: time.Second} {
		s := new(timedTokens)
		inBubbleWithTokens(t, s, func(t *testing.T, _ *fakeetcd.Cluster, c *Channel) {
			var accepted atomic.Bool
			s.refuses = func(*fakeetcd.Member, time.Duration) bool { return !accepted.Load() }
			s.expire()
			callFor(time.Minute, callers, pause, func() {
				assert.Equal(t, codes.Unauthenticated, status.Code(put(grpctest.Within(t, 5*time.Second), c)))
			})
			assert.LessOrEqual(t, s.issued.Load(), int64(1+maxTokenRefreshes+15), "half of the backoff is 4 s")
			accepted.Store(true)
			assert.NoError(t, put(t.Context(), c))
		})
	}
}

// A stream that a lagging member refuses is opened at another one, with the same token.
func TestStreamWhoseTokenIsLearntLate(t *testing.T) {
	s := new(timedTokens)
	inBubbleWithTokens(t, s, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel) {
		s.refuses = func(m *fakeetcd.Member, age time.Duration) bool { return age < time.Second && m != cluster.Member(1) }
		s.expire()
		for range 6 {
			retrier := c.Streams().Retrier(pb.Watch_Watch_FullMethodName).Endless()
			for {
				ws := must(pb.NewWatchClient(retrier).Watch(t.Context(), grpc.WaitForReady(true)))
				// Send returns io.EOF if the stream was refused meanwhile. Recv has the error.
				_ = ws.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}})
				_, err := ws.Recv()
				if err == nil {
					break
				}
				require.NoError(t, retrier.Next(t.Context(), err))
			}
		}
		assert.EqualValues(t, 1, s.issued.Load())
	})
}

// etcd refuses the token of a watch in a message. If the program's own client opened the stream, its next one has a new token.
func TestTokenOfTheProgramsOwnStreams(t *testing.T) {
	s := &timedTokens{refuses: func(*fakeetcd.Member, time.Duration) bool { return false }}
	inBubbleWithTokens(t, s, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel) {
		for _, reason := range []error{rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCPermissionDenied} {
			time.Sleep(tokenSettles)
			s.issued.Store(0)
			cluster.Once("Watch", func(call *fakeetcd.Call) {
				_ = call.Send(&pb.WatchResponse{Header: &pb.ResponseHeader{}, WatchId: -1, Created: true, Canceled: true, CancelReason: reason.Error()})
			})
			for range 3 {
				must(watch(t.Context(), c.Conn()))
			}
			assert.EqualValues(t, 1, s.issued.Load())
		}
	})
}

// Calls to a named member fetch a token before they are sent, as others do.
func TestCallsToANamedMemberFetchAToken(t *testing.T) {
	s := &timedTokens{refuses: func(*fakeetcd.Member, time.Duration) bool { return false }}
	inBubbleWithTokens(t, s, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel) {
		at := must(c.At(cluster.Member(0).Endpoint()))
		s.expire()
		c.LoginChanged()
		before := cluster.Count("Put")
		require.NoError(t, put(t.Context(), at))
		assert.Equal(t, 1, cluster.Count("Put")-before, "none without a token, to be refused")
	})
}

// Clients in different processes share nothing, so the cost of fleetClients is scaled up to a
// population of fleetPopulation.
const (
	fleetClients    = 100
	fleetPopulation = 10_000
)

// rates returns how much a count grows in each step, for the whole population.
func rates(steps int, step time.Duration, count func() int) (peak, total int) {
	before := count()
	start := before
	for range steps {
		time.Sleep(step)
		synctest.Wait()
		now := count()
		peak, before = max(peak, now-before), now
	}
	const scale = fleetPopulation / fleetClients
	return peak * scale, (before - start) * scale
}

// After a wrong password, calls fail with the member's refusal and without asking it, and a
// fleet asks rarely.
func TestSimulatedWrongPasswordOfAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		authenticate := func(context.Context, string, string) (string, error) {
			asked.Add(1)
			time.Sleep(60 * time.Millisecond)
			return "", rpctypes.ErrGRPCAuthFailed
		}
		for range fleetClients {
			s := newTestTokens(nil, alice)
			s.authenticate = authenticate
			go callFor(10*time.Minute, 2, time.Second/2, func() {
				assert.Equal(t, rpctypes.ErrGRPCAuthFailed, s.ensure(t.Context()))
			})
		}
		count := func() int { return int(asked.Load()) }
		_, total := rates(60, time.Second, count)
		t.Logf("the first minute: %d", total)
		assert.LessOrEqual(t, total, 9*fleetPopulation)
		peak, total := rates(9*60, time.Second, count)
		t.Logf("nine more minutes: %d a second, at most %d", total/540, peak)
		assert.LessOrEqual(t, total/540, fleetPopulation/40)
		assert.LessOrEqual(t, peak, fleetPopulation*3/20)
		time.Sleep(time.Minute)
	})
}

// While Authenticate fails for another reason, few requests are made, however many calls there are.
func TestFailedLoginsAreFew(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.PermissionDenied, codes.ResourceExhausted} {
		grpctest.Bubble(t, code.String(), func(t *testing.T) {
			srv := &authServer{err: status.Error(code, "refused")}
			s := newTestTokens(srv, alice)
			callFor(time.Minute, 20, 100*time.Millisecond, func() { assert.Equal(t, srv.err, s.ensure(t.Context())) })
			assert.LessOrEqual(t, srv.calls, 1+maxTokenRefreshes+15, "half of the backoff is 4 s")
			srv.err = nil
			time.Sleep(maxUselessTokenBackoff)
			assert.NoError(t, s.ensure(t.Context()))
		})
	}
}

// Another login, and the old one set again, are tried at once.
func TestLoginAfterAWrongPassword(t *testing.T) {
	noPasswordUser := status.Error(codes.Unknown, "auth: authentication failed, password was given for no password user")
	for name, refusal := range map[string]error{"wrong": rpctypes.ErrGRPCAuthFailed, "of a user without": noPasswordUser} {
		grpctest.Bubble(t, name, func(t *testing.T) { loginAfterAWrongPassword(t, refusal) })
	}
}

func loginAfterAWrongPassword(t *testing.T, refusal error) {
	srv, login := &authServer{err: refusal}, alice
	s := newTestTokens(srv, alice)
	s.login = func() Login { return login }
	for range 5 {
		require.Equal(t, refusal, s.ensure(t.Context()))
	}
	require.Equal(t, 1, srv.calls)
	login.Password = "other"
	for range 2 {
		require.Equal(t, refusal, s.ensure(t.Context()))
	}
	require.Equal(t, 2, srv.calls)
	s.loginChanged()
	require.Equal(t, refusal, s.ensure(t.Context()))
	require.Equal(t, 3, srv.calls)

	srv.err = nil
	time.Sleep(maxWrongLoginBackoff)
	require.NoError(t, s.ensure(t.Context()))
	require.Equal(t, 4, srv.calls)

	s.current.Store(nil)
	srv.err = errGone
	for n := range 3 {
		require.Equal(t, errGone, s.ensure(t.Context()))
		require.Equal(t, 5+n, srv.calls, "another failure is the member's, and has backoffs of its own")
	}
}

// A change of users or roles while a request is under way costs no login. If the token is a JWT, every member refuses it from
// then on: the second one that does shows it.
func TestUsersChangeUnderACall(t *testing.T) {
	inBubbleWithTokens(t, new(timedTokens), func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel) {
		for refusals, logins := range []int{0, 0, 1} {
			tokens := cluster.Count("Authenticate")
			for range refusals {
				cluster.Once("Put", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCAuthOldRevision) })
			}
			require.NoError(t, put(t.Context(), c))
			assert.Equal(t, logins, cluster.Count("Authenticate")-tokens)
		}
	})
}

// A request that arrives before authentication is on and is applied afterwards has no user,
// although it carried a token. It was not executed, and the token may be valid.
func TestRequestThatArrivedBeforeAuthenticationWasOn(t *testing.T) {
	for name, login := range map[string]Login{"password": alice, "own token": {Token: "jwt"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(cfg *Config) { cfg.Login = func() Login { return login } }, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) {
				tokens, puts := cluster.Count("Authenticate"), cluster.Count("Put")
				refuse := func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCUserEmpty) }
				cluster.Once("Put", refuse)
				require.NoError(t, put(t.Context(), c))
				assert.Equal(t, 2, cluster.Count("Put")-puts)

				cluster.On("Put", refuse)
				require.ErrorIs(t, rpctypes.Error(put(t.Context(), c)), rpctypes.ErrUserEmpty)
				assert.Equal(t, 2+1+maxTokenRefreshes, cluster.Count("Put")-puts)

				_, err := pb.NewAuthClient(c).UserAdd(t.Context(), &pb.AuthUserAddRequest{})
				require.ErrorIs(t, rpctypes.Error(err), rpctypes.ErrUserEmpty)
				assert.Equal(t, 1, cluster.Count("UserAdd"), "the request is wrong")
				assert.Equal(t, tokens, cluster.Count("Authenticate"))
			}, new(timedTokens).install)
		})
	}
}
