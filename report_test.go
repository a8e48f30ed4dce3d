package quorate_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/observe/introspect"
)

// reported returns the handler's report of some channels.
func reported(t *testing.T, channels *introspect.Channels) []introspect.Client {
	t.Helper()
	w := httptest.NewRecorder()
	introspect.Handler(introspect.Options{}, map[string]introspect.Source{"billing": channels}).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	var report introspect.Report
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &report))
	return report.Clients
}

func TestAChannelIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var channels introspect.Channels
		var second *grpc.ClientConn
		backends, client, stop := serve(t, func(target string, names resolver.Builder, dialer grpc.DialOption) (closer, error) {
			channel := repeatable
			channel.Report = &channels
			other, err := over(t, channel)(target, names, dialer)
			require.NoError(t, err)
			second = other.(*grpc.ClientConn)
			return over(t, channel)(target, names, dialer)
		})
		assert.Empty(t, reported(t, &channels), "it is not in use")
		read := reads(client)
		load(t, 4, 2*time.Second, read)
		shown := reported(t, &channels)
		require.Len(t, shown, 1)
		billing := shown[0]
		assert.Equal(t, "billing", billing.Name)
		assert.Equal(t, "static:///10.0.0.1:80,10.0.0.2:80,10.0.0.3:80", billing.Target)
		assert.Equal(t, "quorate_p2c", billing.Policy)
		assert.True(t, billing.Ready, billing.NotReady)
		assert.Equal(t, "insecure", billing.Config["TransportCredentials"])
		require.Len(t, billing.Endpoints, 3)
		for _, e := range billing.Endpoints {
			assert.Equal(t, "serving", e.State)
			assert.Equal(t, 1, e.Connections)
			assert.InDelta(t, 0.33, e.Share, 0.2, "%v", e.Name)
			assert.False(t, e.Ejected)
		}

		backends[0].freeze()
		load(t, 4, 2*time.Second, read)
		time.Sleep(time.Minute)
		reported(t, &channels)
		load(t, 4, time.Second, read)
		hung := make(chan error)
		backends[1].pause.Store(int64(10 * time.Second))
		backends[2].pause.Store(int64(10 * time.Second))
		go func() { _, err := client.UnaryCall(t.Context(), &testgrpc.SimpleRequest{}); hung <- err }()
		time.Sleep(20 * time.Millisecond)
		billing = reported(t, &channels)[0]
		assert.True(t, billing.Ready, billing.NotReady)
		assert.Equal(t, 1, billing.Calls.InFlight)
		assert.Equal(t, unaryCall, billing.Calls.Oldest[0].Method)
		frozen := billing.Endpoints[0]
		assert.Equal(t, "10.0.0.1:80", frozen.Name)
		assert.Equal(t, "dead", frozen.State)
		assert.Equal(t, "unresponsive", frozen.Evidence)
		assert.NotEmpty(t, frozen.Detail)
		assert.InDelta(t, 61, frozen.StateSeconds, 2)
		assert.True(t, frozen.Ejected)
		assert.InDelta(t, 0, frozen.Share, 0.01)
		assert.InDelta(t, 1, frozen.Share+billing.Endpoints[1].Share+billing.Endpoints[2].Share, 0.001)
		require.NoError(t, <-hung)
		backends[0].thaw()

		second.Connect()
		synctest.Wait()
		shown = reported(t, &channels)
		require.Len(t, shown, 2)
		assert.Equal(t, "billing#2", shown[1].Name)
		assert.Len(t, introspect.Metrics(channels.Introspect(introspect.Options{})), 2+3*3+3, "one of each for both")
		stop()
		synctest.Wait()
		shown = reported(t, &channels)
		require.Len(t, shown, 1, "one is closed")
		assert.Equal(t, "billing#2", shown[0].Name)
		assert.False(t, shown[0].Ready)
		assert.Equal(t, "no usable endpoint is connected", shown[0].NotReady)
		require.NoError(t, second.Close())
		assert.Empty(t, reported(t, &channels))
	})
}

// A channel without endpoints says why. What a resolver in code sets for the policy stays in force.
func TestAReportOfWhatAResolverSays(t *testing.T) {
	var channels introspect.Channels
	var monitor balancer.Monitor
	scripted := manual.NewBuilderWithScheme("scripted")
	options, err := quorate.Channel{
		TransportCredentials: insecure.NewCredentials(), Resolvers: []resolver.Builder{scripted}, Report: &channels,
	}.DialOptions()
	require.NoError(t, err)
	conn, err := grpc.NewClient("scripted:///svc", append(options, grpc.WithContextDialer(refuse))...)
	require.NoError(t, err)
	conn.Connect()
	state := listOf("10.0.0.1:80")
	other := state
	other.ServiceConfig = scripted.CC().ParseServiceConfig(`{"loadBalancingConfig": [{"pick_first": {}}]}`)
	for _, tt := range []struct {
		says     func()
		policy   string
		notReady string
	}{
		{func() {}, "", "the resolver has given no endpoints"},
		{
			func() { scripted.CC().ReportError(errors.New("the source is unreachable")) }, "",
			"the resolver has given no endpoints; the resolver's latest error: the source is unreachable",
		},
		{func() {
			_ = scripted.CC().UpdateState(balancer.WithOptions(state, &balancer.Options{Monitor: &monitor}))
		}, "quorate_p2c", "no usable endpoint is connected"},
		{
			func() { _ = scripted.CC().UpdateState(other) }, "",
			"the service config of the resolver chooses another policy, of which nothing is known",
		},
	} {
		tt.says()
		var shown introspect.Client
		require.Eventually(t, func() bool { // a policy that is replaced is closed later
			shown = reported(t, &channels)[0]
			return shown.NotReady == tt.notReady
		}, 30*time.Second, time.Millisecond, "%v", &shown)
		assert.Equal(t, tt.policy, shown.Policy)
		assert.Equal(t, tt.policy != "", len(monitor.Endpoints()) == 1)
	}
	require.NoError(t, conn.Close())
	assert.Empty(t, reported(t, &channels))
}
