package endpoints_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newManager(t *testing.T, client *clientv3.Client, target string) endpoints.Manager {
	t.Helper()
	return clienttest.Must(endpoints.NewManager(client, target))
}

func TestNewManagerRefuses(t *testing.T) {
	_, client := clienttest.StartClient(t, 1)
	_, err := endpoints.NewManager(nil, "svc")
	require.ErrorContains(t, err, "client")
	_, err = endpoints.NewManager(client, "")
	require.ErrorContains(t, err, "target")
}

func TestUpdateRefuses(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	m := newManager(t, client, "svc")
	a := endpoints.Endpoint{Addr: "a"}
	for name, tt := range map[string]struct {
		update *endpoints.UpdateWithOpts
		says   string
	}{
		"key of another target": {endpoints.NewAddUpdateOpts("svc2/a", a), `"svc/"`},
		"key without a slash":   {endpoints.NewDeleteUpdateOpts("svc"), `"svc/"`},
		"unknown operation":     {&endpoints.UpdateWithOpts{Update: endpoints.Update{Op: 7, Key: "svc/a"}}, "7"},
		"metadata":              {endpoints.NewAddUpdateOpts("svc/a", endpoints.Endpoint{Metadata: func() {}}), "svc/a"},
		"nothing":               {nil, "update 1 is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			err := m.Update(clienttest.Within(t), []*endpoints.UpdateWithOpts{endpoints.NewAddUpdateOpts("svc/good", a), tt.update})
			assert.Equal(t, codes.InvalidArgument, status.Code(err))
			assert.ErrorContains(t, err, tt.says)
		})
	}
	require.Zero(t, cluster.Count("Txn"), "nothing was sent")
}

func TestList(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	for key, value := range map[string]string{
		"svc/a":   `{"Op":0,"Addr":"a","Metadata":{"weight":3}}`,
		"svc/bad": `127.0.0.1:80`,
		"svc/c/d": `{"Addr":"c"}`,
		"svc":     `{"Addr":"not below it"}`,
		"svc2/e":  `{"Addr":"of another target"}`,
		"other":   `{"Addr":"other"}`,
	} {
		clienttest.Put(t, cluster, key, value)
	}
	all := clienttest.Must(newManager(t, client, "svc").List(clienttest.Within(t)))
	require.Equal(t, endpoints.Key2EndpointMap{
		"svc/a":   {Addr: "a", Metadata: map[string]any{"weight": 3.0}},
		"svc/c/d": {Addr: "c"},
	}, all)

	all = clienttest.Must(newManager(t, client, "none").List(clienttest.Within(t)))
	require.NotNil(t, all)
	require.Empty(t, all)
}

// A client that does not accept all endpoints in one message lists them nevertheless.
func TestListOfManyEndpoints(t *testing.T) {
	cluster := clienttest.Start(t, 1)
	client := clienttest.Connect(t, cluster, clientv3.Config{MaxCallRecvMsgSize: 64 << 10})
	for i := range 50 {
		clienttest.Put(t, cluster, fmt.Sprintf("svc/%d", i), clienttest.Must(endpoints.Encode(endpoints.Endpoint{Metadata: strings.Repeat("m", 10<<10)})))
	}
	require.Len(t, clienttest.Must(newManager(t, client, "svc").List(clienttest.Within(t))), 50)
}

// A list needs no quorum, and a write returns the server's error.
func TestErrorsAndReadsAreTheServers(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	m := newManager(t, client, "svc")
	cluster.SetLeader(nil)
	_, err := m.List(clienttest.Within(t))
	require.NoError(t, err, "a list needs no quorum")

	cluster.SetLeader(cluster.Member(0))
	cluster.On("Range", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
	_, err = m.List(clienttest.Within(t))
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
	_, err = m.NewWatchChannel(clienttest.Within(t))
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
}
