package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/servers"
	"github.com/quorate/quorate/lab/servers/site"
)

func TestKine(t *testing.T) {
	if os.Getenv("QUORATE_KINE") == "" {
		t.Skip("QUORATE_KINE is not set: `make servers-short` builds kine and runs this")
	}
	i := slices.IndexFunc(servers.All, func(s servers.Server) bool { return strings.HasPrefix(s.Name, "kine ") })
	kine := servers.All[i]
	path, err := kine.Build(t.Context())
	require.NoError(t, err)
	server, err := kine.Start(t.Context(), path, site.Plain)
	require.NoError(t, err)
	defer func() { assert.NoError(t, server.Close()) }()
	report := examine(t, testTimeout, clientv3.Config{Endpoints: server.Site().Endpoints})
	requireCodes(t, report, "note not-etcd kine")
	assert.Equal(t, kindOther, report.Endpoints[0].Kind)
	assert.Empty(t, report.Endpoints[0].Role)
}
