package lab_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/etcd34"
)

func startProxy(t *testing.T, c *lab.Cluster) *lab.Member {
	t.Helper()
	p, err := lab.StartProxy(grpctest.Within(t, 2*soon), c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p.Members()[0]
}

func TestProxy(t *testing.T) {
	for name, binary := range map[string]func(etcd34.TB) string{
		"built in": func(etcd34.TB) string { return "" },
		"etcd 3.4": etcd34.Path,
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, lab.Config{Members: 1, Binary: binary(t)})
			p := startProxy(t, c)
			client := dial(t, c, p.Endpoint())
			put(t, client, "k", "v")
			requireValue(t, client, "k", "v")

			assert.ErrorIs(t, p.Restart(grpctest.Within(t, soon)), lab.ErrRunning)
			endpoint, pid := p.Endpoint(), p.PID()
			require.NoError(t, p.Kill())
			requireNoProcess(t, pid)
			require.NoError(t, p.Kill(), "second kill")
			require.NoError(t, p.Restart(grpctest.Within(t, soon)))
			assert.Equal(t, endpoint, p.Endpoint())
			requireValue(t, client, "k", "v")
		})
	}
}

func TestStartProxyErrors(t *testing.T) {
	c := start(t, lab.Config{Members: 1, TLS: true})
	_, err := lab.StartProxy(grpctest.Within(t, soon), c)
	require.ErrorContains(t, err, "Config.TLS")

	c = start(t, lab.Config{Members: 1})
	require.NoError(t, c.Members()[0].Kill())
	_, err = lab.StartProxy(grpctest.Within(t, hang), c)
	require.ErrorContains(t, err, "does not serve")
}
