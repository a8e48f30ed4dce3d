package etcd_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/resolver/etcd"
)

func TestRegisterRefuses(t *testing.T) {
	cluster, client, _ := start(t)
	good := etcd.Registration{Service: "svc", Address: "10.0.0.1:1"}
	with := func(change func(*etcd.Registration)) etcd.Registration {
		reg := good
		change(&reg)
		return reg
	}
	addr := func(a string) etcd.Registration { return etcd.Registration{Service: "svc", Address: a} }
	tests := map[string]struct {
		reg  etcd.Registration
		want string
	}{
		"nothing":             {etcd.Registration{}, "Service is empty"},
		"slash first":         {with(func(r *etcd.Registration) { r.Service = "/svc" }), `Service is "/svc"`},
		"slash last":          {with(func(r *etcd.Registration) { r.Service = "svc/" }), `Service is "svc/"`},
		"no address":          {addr(""), `Address is "": it must have the form "host:port"`},
		"no port":             {addr("10.0.0.1"), `Address is "10.0.0.1": it must have the form`},
		"no host":             {addr(":1"), "no host that others could connect to"},
		"every IPv4":          {addr("0.0.0.0:1"), "no host that others could connect to"},
		"every IPv6":          {addr("[::]:1"), "no host that others could connect to"},
		"any port":            {addr("10.0.0.1:0"), "from 1 to 65535"},
		"named port":          {addr("10.0.0.1:http"), "from 1 to 65535"},
		"additional":          {with(func(r *etcd.Registration) { r.AdditionalAddresses = []string{"a:1", ":1"} }), `AdditionalAddresses[1] is ":1"`},
		"short TTL":           {with(func(r *etcd.Registration) { r.TTL = time.Second - 1 }), "TTL is 999.999999ms: it must be at least 1s"},
		"negative TTL":        {with(func(r *etcd.Registration) { r.TTL = -time.Second }), "TTL is -1s"},
		"weight":              {with(func(r *etcd.Registration) { r.Weight = balancer.MaxWeight + 1 }), "Weight is 65537: it must be at most 65536"},
		"no JSON":             {with(func(r *etcd.Registration) { r.Metadata = func() {} }), "Metadata has no form in JSON"},
		"no JSON, weight":     {with(func(r *etcd.Registration) { r.Metadata, r.Weight = func() {}, 1 }), "Metadata has no form in JSON"},
		"no place for weight": {with(func(r *etcd.Registration) { r.Metadata, r.Weight = "text", 1 }), "Metadata is a string: with Weight"},
		"value, no name":      {etcd.Registration{Service: "/svc", Value: "v"}, "Name is empty"},
		"value and address":   {with(func(r *etcd.Registration) { r.Value, r.Name = "v", "n" }), "Value is set: leave out Address"},
		"weight twice":        {with(func(r *etcd.Registration) { r.Metadata, r.Weight = map[string]int{"weight": 1}, 1 }), `Metadata has a member "weight"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := etcd.Register(grpctest.Within(t, testTimeout), client, tt.reg)
			require.ErrorContains(t, err, tt.want)
		})
	}
	withoutLease := clientv3.NewCtxClient(t.Context())
	withoutLease.KV, withoutLease.Watcher = client.KV, client.Watcher
	for _, none := range []*clientv3.Client{nil, clientv3.NewCtxClient(t.Context()), withoutLease} {
		_, err := etcd.Register(grpctest.Within(t, testTimeout), none, good)
		require.ErrorContains(t, err, "give one that clientv3.New returned")
	}
	require.Zero(t, cluster.Count("LeaseGrant"))
}

// What is written is what the official client writes, and what the resolver reads.
func TestValues(t *testing.T) {
	type zone struct {
		Zone string `json:"zone"`
	}
	tests := map[string]struct {
		reg            etcd.Registration
		key            string
		addr, metadata string // in the value
	}{
		"address":                {etcd.Registration{Address: "10.0.0.1:1"}, "svc/10.0.0.1:1", "10.0.0.1:1", `null`},
		"socket":                 {etcd.Registration{Address: "unix:/run/a"}, "svc/unix:/run/a", "unix:/run/a", `null`},
		"name":                   {etcd.Registration{Address: "a:1", Name: "pod-0"}, "svc/pod-0", "a:1", `null`},
		"metadata":               {etcd.Registration{Address: "a:1", Metadata: []int{1}}, "svc/a:1", "a:1", `[1]`},
		"weight":                 {etcd.Registration{Address: "a:1", Weight: 3}, "svc/a:1", "a:1", `{"weight":3}`},
		"weight in the metadata": {etcd.Registration{Address: "a:1", Metadata: map[string]int{"weight": 4}}, "svc/a:1", "a:1", `{"weight":4}`},
		"all": {
			etcd.Registration{Address: "a:1", Weight: 3, Metadata: zone{"z"}, AdditionalAddresses: []string{"b:1"}},
			"svc/a:1", "a:1", `{"additionalAddresses":["b:1"],"weight":3,"zone":"z"}`,
		},
	}
	cluster, client, _ := start(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.reg.Service = "svc"
			r, err := etcd.Register(grpctest.Within(t, testTimeout), client, tt.reg)
			require.NoError(t, err)
			require.Equal(t, tt.key, r.Key())
			require.Equal(t, `{"Op":0,"Addr":"`+tt.addr+`","Metadata":`+tt.metadata+`}`, string(cluster.Get(tt.key).Value))
			require.NoError(t, r.Withdraw(grpctest.Within(t, testTimeout)))
			require.Nil(t, cluster.Get(tt.key))
		})
	}
}

func TestTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]int64{
		0: 10, time.Second: 2, 2500 * time.Millisecond: 3, time.Minute: 60,
	} {
		_, client, _ := start(t)
		r, err := etcd.Register(grpctest.Within(t, testTimeout), client, etcd.Registration{Service: "svc", Address: "a:1", TTL: ttl})
		require.NoError(t, err)
		resp, err := client.TimeToLive(grpctest.Within(t, testTimeout), r.State().Lease)
		require.NoError(t, err)
		require.Equal(t, want, resp.GrantedTTL)
	}
	_, client, _ := start(t)
	_, err := etcd.Register(grpctest.Within(t, testTimeout), client, etcd.Registration{Service: "svc", Address: "a:1", TTL: math.MaxInt64})
	require.Equal(t, rpctypes.ErrLeaseTTLTooLarge, errors.Unwrap(err), "the server's limit counts")
}

// Keys and values in a format of the user's are registered, again after an outage in which the lease was lost.
func TestAnotherFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := start(t)
		events := make(chan etcd.Event, 100)
		r, err := etcd.Register(grpctest.Within(t, testTimeout), client, etcd.Registration{
			Service: "/svc", Name: "1", Value: "10.0.0.1:1", Notify: func(e etcd.Event) { events <- e },
		})
		require.NoError(t, err)
		registered{r, events}.expect(t, etcd.Registered)
		require.Equal(t, "/svc/1", r.Key())
		require.Equal(t, "10.0.0.1:1", string(cluster.Get("/svc/1").Value))
		require.ErrorContains(t, r.SetWeight(grpctest.Within(t, testTimeout), 2), "Value is set")

		cluster.Member(0).Stop()
		require.NoError(t, cluster.ExpireLease(int64(r.State().Lease)))
		require.Nil(t, cluster.Get("/svc/1"))
		cluster.Member(0).Start()
		registered{r, events}.expect(t, etcd.Lost)
		registered{r, events}.expect(t, etcd.Registered)
		require.Equal(t, "10.0.0.1:1", string(cluster.Get("/svc/1").Value))
		require.NoError(t, r.Withdraw(grpctest.Within(t, testTimeout)))
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is far longer than any wait of these tests.
const (
	testTimeout = time.Minute
	// poll is the pause between two checks of a condition.
	poll = time.Millisecond
)

// start runs a cluster of two members over one store. The client knows only the first one, so that
// a test can stop it and write through the other.
func start(t *testing.T) (cluster *fakeetcd.Cluster, client, other *clientv3.Client) {
	t.Helper()
	cluster, err := fakeetcd.Start(2)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return cluster, connect(t, cluster, 0), connect(t, cluster, 1)
}

func connect(t *testing.T, cluster *fakeetcd.Cluster, member int) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{cluster.Member(member).Endpoint()}, DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}
