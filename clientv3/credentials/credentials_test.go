package credentials_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/quorate/quorate/clientv3/credentials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What one caller adds to its metadata, no other call sends.
func TestTokenIsFollowed(t *testing.T) {
	bundle := credentials.NewPerRPCCredentialBundle()
	attached := bundle.PerRPCCredentials()
	require.False(t, attached.RequireTransportSecurity())
	md, err := attached.GetRequestMetadata(t.Context(), "https://etcd")
	require.NoError(t, err)
	require.Empty(t, md, "before there is a token")
	for _, token := range []string{"first", "second", "", "third"} {
		bundle.UpdateAuthToken(token)
		for range 2 {
			md, err := attached.GetRequestMetadata(t.Context(), "https://etcd")
			require.NoError(t, err)
			if token == "" {
				require.Empty(t, md)
				continue
			}
			require.Equal(t, map[string]string{rpctypes.TokenFieldNameGRPC: token}, md)
			md["x-added"] = "1"
		}
	}
}

// The race detector watches the token being replaced while calls read it.
func TestTokenIsReplacedDuringCalls(t *testing.T) {
	bundle := credentials.NewPerRPCCredentialBundle()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			bundle.UpdateAuthToken("token")
			md, err := bundle.PerRPCCredentials().GetRequestMetadata(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, "token", md[rpctypes.TokenFieldNameGRPC])
		})
	}
	all.Wait()
}

// TestTokenIsNotPrinted fails with the official package, whose credentials print their fields.
func TestTokenIsNotPrinted(t *testing.T) {
	const secret = "s3cret-token"
	bundle := credentials.NewPerRPCCredentialBundle()
	bundle.UpdateAuthToken(secret)
	core, logs := observer.New(zap.DebugLevel)
	for _, v := range []any{bundle, bundle.PerRPCCredentials()} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			assert.NotContains(t, fmt.Sprintf(verb, v), secret, verb)
		}
		encoded, err := json.Marshal(v)
		require.NoError(t, err)
		assert.NotContains(t, string(encoded), secret)
		zap.New(core).Info("credentials", zap.Any("any", v), zap.Reflect("reflect", v))
	}
	require.NotZero(t, logs.Len())
	for _, entry := range logs.All() {
		assert.NotContains(t, fmt.Sprintf("%+v", entry.ContextMap()), secret)
	}
}

func TestTransportCredential(t *testing.T) {
	cfg := &tls.Config{ServerName: "etcd.example"}
	creds := credentials.NewTransportCredential(cfg)
	require.Equal(t, "tls", creds.Info().SecurityProtocol)
	require.Equal(t, "etcd.example", creds.Info().ServerName) //nolint:staticcheck // there is no other way to see it
	cfg.ServerName = "changed"
	require.Equal(t, "etcd.example", creds.Clone().Info().ServerName) //nolint:staticcheck // as above
	require.Equal(t, "tls", credentials.NewTransportCredential(nil).Info().SecurityProtocol)
}
