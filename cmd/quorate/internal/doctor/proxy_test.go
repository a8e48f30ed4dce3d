package doctor

import (
	"context"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/endpoint"
)

// A member behind a proxy is reached as the client reaches it, under a name that only the proxy resolves.
func TestExaminationThroughAProxy(t *testing.T) {
	target := member(1, func(*scripted) {}).start(t)
	for answer, want := range map[string]string{
		"HTTP/1.1 200 OK\r\n\r\n":        "",
		"HTTP/1.1 403 Forbidden\r\n\r\n": "unreachable",
	} {
		ep, err := endpoint.Parse("http://etcd.invalid:2379")
		require.NoError(t, err)
		v := newVisit(Config{Client: clientv3.Config{}, Timeout: testTimeout}, ep)
		v.via = &url.URL{Scheme: "http", Host: front{target: target, connect: answer}.start(t)}
		v.examine(context.Background())
		d := diagnosis{cfg: v.cfg, visits: []*visit{v}}
		if want == "" {
			require.NoError(t, v.err)
			assert.NotNil(t, v.status)
		} else {
			d.failure(v)
			require.Len(t, d.findings, 1)
			assert.Equal(t, Code(want), d.findings[0].Code)
			assert.Equal(t, "proxy "+v.via.Host+" of HTTPS_PROXY: no connection to etcd.invalid:2379: 403 Forbidden", d.findings[0].Cause)
		}
		v.close()
	}
}
