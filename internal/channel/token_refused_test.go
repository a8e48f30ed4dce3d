package channel

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
)

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
		func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *witness) { test(t, cluster, c) },
		s.install)
}

// A member that applies the log late does not know a new token yet. The token is used at the
// other members, and no call fails.
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
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
						defer cancel()
						assert.NoError(t, put(ctx, c))
						assert.NoError(t, put(ctx, c.Conn()))
					})
					assert.EqualValues(t, 1, s.issued.Load())
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

		at, err := c.At(cluster.Member(0).Endpoint())
		require.NoError(t, err)
		s.forget()
		require.NoError(t, put(t.Context(), at))
		assert.EqualValues(t, 1, s.issued.Load(), "there is no other")
	})
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
				ws, err := pb.NewWatchClient(retrier).Watch(t.Context(), grpc.WaitForReady(true))
				require.NoError(t, err)
				// Send returns io.EOF if the stream was refused meanwhile. Recv has the error.
				_ = ws.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}})
				if _, err = ws.Recv(); err == nil {
					break
				}
				require.NoError(t, retrier.Next(t.Context(), err))
			}
		}
		assert.EqualValues(t, 1, s.issued.Load())
	})
}

// Calls to a named member fetch a token before they are sent, as others do.
func TestCallsToANamedMemberFetchAToken(t *testing.T) {
	s := &timedTokens{refuses: func(*fakeetcd.Member, time.Duration) bool { return false }}
	inBubbleWithTokens(t, s, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel) {
		at, err := c.At(cluster.Member(0).Endpoint())
		require.NoError(t, err)
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
func TestWrongPasswordOfAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		authenticate := func(context.Context, string, string) (string, error) {
			asked.Add(1)
			time.Sleep(60 * time.Millisecond)
			return "", rpctypes.ErrGRPCAuthFailed
		}
		for range fleetClients {
			s := &tokenSource{login: func() Login { return alice }, authenticate: authenticate}
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

// A change of users or roles while a request is under way costs no login.
func TestUsersChangeUnderACall(t *testing.T) {
	inBubbleWithTokens(t, new(timedTokens), func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel) {
		tokens := cluster.Count("Authenticate")
		for range 10 {
			cluster.Once("Put", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCAuthOldRevision) })
			require.NoError(t, put(t.Context(), c))
		}
		assert.Equal(t, tokens, cluster.Count("Authenticate"))
	})
}

// A request that arrives before authentication is on and is applied afterwards has no user,
// although it carried a token. It was not executed, and the token may be valid.
func TestRequestThatArrivedBeforeAuthenticationWasOn(t *testing.T) {
	for name, login := range map[string]Login{"password": alice, "own token": {Token: "jwt"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(cfg *Config) { cfg.Login = func() Login { return login } }, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *witness) {
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
