package endpoints_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newManager(t *testing.T, client *clientv3.Client, target string) endpoints.Manager {
	t.Helper()
	m, err := endpoints.NewManager(client, target)
	require.NoError(t, err)
	return m
}

func add(key, addr string) *endpoints.Update {
	return &endpoints.Update{Op: endpoints.Add, Key: key, Endpoint: endpoints.Endpoint{Addr: addr}}
}

func gone(key string) *endpoints.Update {
	return &endpoints.Update{Op: endpoints.Delete, Key: key}
}
