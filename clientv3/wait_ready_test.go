package clientv3_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/testpki"
	"github.com/quorate/quorate/observe"
)

// New returns when the cluster serves.
func TestWaitReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		cluster.Member(0).Stop()
		time.AfterFunc(3*time.Second, cluster.Member(0).Start)
		begin := time.Now()
		clienttest.Connect(t, cluster, Config{WaitReady: true})
		assert.GreaterOrEqual(t, time.Since(begin), 3*time.Second)
	})
}

// connectFailure ends a context when a connection has failed.
type connectFailure struct {
	observe.None
	end context.CancelFunc
}

func (f connectFailure) StateChanged(c health.Change) {
	if c.Evidence.Kind == health.ConnectFailed {
		f.end()
	}
}

// New fails with what is wrong.
func TestWaitReadySaysWhatIsWrong(t *testing.T) {
	var secure, plain realMember
	secure.start(t, "127.0.0.1:0", testpki.New(t, "member").Server(t))
	plain.start(t, "127.0.0.1:0", nil)
	for want, cfg := range map[string]Config{
		"certificate signed by unknown authority": {Endpoints: []string{"https://" + secure.addr}, TLS: testpki.New(t, "another").Client()},
		"failed to verify certificate":            {Endpoints: []string{"https://" + secure.addr}},
		"error reading server preface":            {Endpoints: []string{"http://" + secure.addr}},
		"first record does not look like a TLS":   {Endpoints: []string{"https://" + plain.addr}},
		"connect: connection refused":             {Endpoints: []string{"http://127.0.0.1:1"}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cfg.WaitReady, cfg.Logger = true, zap.NewNop()
		cfg.Context, cfg.Observer, cfg.DialTimeout = ctx, connectFailure{end: cancel}, time.Minute
		_, err := New(cfg)
		cancel()
		var notReady *NotReadyError
		require.ErrorAs(t, err, &notReady, want)
		require.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, want)
	}
}

// Without DialTimeout the wait ends after 15 s, also if a member accepts connections and answers nothing. A
// refusal ends it at once.
func TestWaitReadyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		cfg := Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(), WaitReady: true}
		cluster.Member(0).Freeze()
		begin := time.Now()
		_, err := New(cfg)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 15*time.Second, time.Since(begin).Round(time.Second))
		cluster.Member(0).Continue()
		cluster.Once("Range", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCUserEmpty) })
		_, err = New(cfg)
		require.ErrorIs(t, err, rpctypes.ErrUserEmpty)
	})
}
