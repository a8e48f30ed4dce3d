package behaviours_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/servers"
)

// tokenLife is how long the tokens of these tests live: long enough for a call on a slow machine, short enough to wait
// for the end.
const tokenLife = 3 * time.Second

// tokenKinds are the flags of servers whose tokens live for tokenLife, by the kind of token.
func tokenKinds(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{
		"simple": {"--auth-token=simple", fmt.Sprintf("--auth-token-ttl=%d", int(tokenLife.Seconds()))},
		"jwt":    {jwtArg(t)},
	}
}

// TestTokensThatExpire lets both kinds of token run out under a client.
func TestTokensThatExpire(t *testing.T) {
	t.Parallel()
	for name, args := range tokenKinds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ep := startWithAuth(t, args)
			logins := 0
			count := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if method == pb.Auth_Authenticate_FullMethodName {
					logins++
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			// requireLogins checks that a token was fetched, and another one only where time let that expire, which a
			// machine without CPU for a call does. The end of a JWT's life is cut to the second.
			requireLogins := func(before int, since time.Time, why string) {
				t.Helper()
				require.Greater(t, logins, before, why)
				require.LessOrEqual(t, logins, before+1+int(time.Since(since)/(tokenLife-time.Second)), why)
			}
			began := time.Now()
			c := labtest.Client(t, clientv3.Config{
				Endpoints: []string{ep}, Username: "root", Password: "secret",
				DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(count)},
			})
			for range 5 {
				_, err := c.Put(t.Context(), "k", "v")
				require.NoError(t, err)
				readAll(t, c)
			}
			requireLogins(0, began, "one token serves calls and streams")

			// A simple token lives on while it is used, so nothing may use it here.
			time.Sleep(tokenLife + 2*time.Second)
			before, began := logins, time.Now()
			_, err := c.Put(t.Context(), "k", "v")
			require.NoError(t, err)
			requireLogins(before, began, "a call finds out")

			time.Sleep(tokenLife + 2*time.Second)
			before, began = logins, time.Now()
			readAll(t, c)
			requireLogins(before, began, "a stream finds out too")
		})
	}
}

// TestTokenOfTheUser uses a JWT that the client was given, and cannot renew.
func TestTokenOfTheUser(t *testing.T) {
	t.Parallel()
	ep := startWithAuth(t, []string{jwtArg(t)})
	var issued time.Time
	login := func() string {
		c := labtest.Client(t, clientv3.Config{Endpoints: []string{ep}})
		issued = time.Now()
		resp, err := c.Authenticate(t.Context(), "root", "secret")
		require.NoError(t, err)
		return resp.Token
	}
	// serves reports whether a put succeeds. It fails only if a machine without CPU for a call let the token expire.
	serves := func(c *clientv3.Client) bool {
		_, err := c.Put(t.Context(), "k", "v")
		if err != nil {
			require.Equal(t, rpctypes.ErrInvalidAuthToken, err)
			require.Greater(t, time.Since(issued), tokenLife-time.Second)
		}
		return err == nil
	}
	c := labtest.Client(t, clientv3.Config{Endpoints: []string{ep}, Token: login()})
	for !serves(c) {
		c = labtest.Client(t, clientv3.Config{Endpoints: []string{ep}, Token: login()})
	}

	time.Sleep(tokenLife + 2*time.Second)
	_, err := c.Put(t.Context(), "k", "v")
	require.Equal(t, rpctypes.ErrInvalidAuthToken, err)
	for c.Token = login(); !serves(c); {
		c.Token = login()
	}
}

// readAll reads a range over a stream, and by its limit makes do with the stream: no call goes before it that could
// renew a token.
func readAll(t *testing.T, c *clientv3.Client) {
	t.Helper()
	stream, err := c.GetStream(t.Context(), "k", clientv3.WithPrefix(), clientv3.WithLimit(5))
	require.NoError(t, err)
	resp, err := clientv3.GetStreamToGetResponse(stream)
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
}

// startWithAuth starts a member with authentication on and root's password "secret".
func startWithAuth(t *testing.T, args []string) (endpoint string) {
	t.Helper()
	cluster := labtest.Start(t, lab.Config{Members: 1, Args: append(args, "--bcrypt-cost=4")})
	c := labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	_, err := c.UserAdd(t.Context(), "root", "secret")
	require.NoError(t, err)
	_, err = c.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = c.AuthEnable(t.Context())
	require.NoError(t, err)
	cluster.SetCredentials("root", "secret")
	return cluster.Endpoints()[0]
}

// jwtArg returns the flag that makes a member sign tokens with a key of this test.
func jwtArg(t *testing.T) string {
	t.Helper()
	flag, err := servers.TokenFlag(t.TempDir(), tokenLife)
	require.NoError(t, err)
	return flag
}
