package etcd_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/clientv3"
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
	addr := func(a string) etcd.Registration {
		return with(func(r *etcd.Registration) { r.Address = a })
	}
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
			_, err := etcd.Register(within(t), client, tt.reg)
			require.ErrorContains(t, err, tt.want)
		})
	}
	for _, none := range []*clientv3.Client{nil, clientv3.NewCtxClient(t.Context())} {
		_, err := etcd.Register(within(t), none, good)
		require.ErrorContains(t, err, "give one that clientv3.New returned")
	}
	require.Zero(t, cluster.Count("LeaseGrant"))
}

// What is written is what the official client writes, and what readers find in it.
func TestValues(t *testing.T) {
	type zone struct {
		Zone string `json:"zone"`
	}
	tests := map[string]struct {
		reg    etcd.Registration
		key    string
		value  string
		weight uint32
	}{
		"address": {
			etcd.Registration{Address: "10.0.0.1:1"}, "svc/10.0.0.1:1", `{"Op":0,"Addr":"10.0.0.1:1","Metadata":null}`, 1,
		},
		"socket": {
			etcd.Registration{Address: "unix:/run/a"}, "svc/unix:/run/a", `{"Op":0,"Addr":"unix:/run/a","Metadata":null}`, 1,
		},
		"name": {
			etcd.Registration{Address: "a:1", Name: "pod-0"}, "svc/pod-0", `{"Op":0,"Addr":"a:1","Metadata":null}`, 1,
		},
		"metadata": {
			etcd.Registration{Address: "a:1", Metadata: []int{1}}, "svc/a:1", `{"Op":0,"Addr":"a:1","Metadata":[1]}`, 1,
		},
		"weight": {
			etcd.Registration{Address: "a:1", Weight: 3}, "svc/a:1", `{"Op":0,"Addr":"a:1","Metadata":{"weight":3}}`, 3,
		},
		"weight in the metadata": {
			etcd.Registration{Address: "a:1", Metadata: map[string]int{"weight": 4}}, "svc/a:1", `{"Op":0,"Addr":"a:1","Metadata":{"weight":4}}`, 4,
		},
		"all": {
			etcd.Registration{Address: "a:1", Weight: 3, Metadata: zone{"z"}, AdditionalAddresses: []string{"b:1"}},
			"svc/a:1",
			`{"Op":0,"Addr":"a:1","Metadata":{"additionalAddresses":["b:1"],"weight":3,"zone":"z"}}`, 3,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster, client, _ := start(t)
			tt.reg.Service = "svc"
			r, err := etcd.Register(within(t), client, tt.reg)
			require.NoError(t, err)
			require.Equal(t, tt.key, r.Key())
			require.Equal(t, tt.value, string(cluster.Get(tt.key).Value))
			c := newChannel()
			resolve(t, client, "etcd:///svc", c)
			require.Equal(t, append([]string{tt.reg.Address}, tt.reg.AdditionalAddresses...), c.state(t))
			require.Equal(t, tt.weight, balancer.WeightOf((<-c.endpoints)[0]))
			require.NoError(t, r.Withdraw(within(t)))
			require.Nil(t, cluster.Get(tt.key))
		})
	}
}

func TestTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]int64{
		0: 10, time.Second: 2, 2500 * time.Millisecond: 3, time.Minute: 60,
	} {
		_, client, _ := start(t)
		r, err := etcd.Register(within(t), client, etcd.Registration{Service: "svc", Address: "a:1", TTL: ttl})
		require.NoError(t, err)
		resp, err := client.TimeToLive(within(t), r.State().Lease)
		require.NoError(t, err)
		require.Equal(t, want, resp.GrantedTTL)
	}
	_, client, _ := start(t)
	_, err := etcd.Register(within(t), client, etcd.Registration{Service: "svc", Address: "a:1", TTL: math.MaxInt64})
	require.Equal(t, rpctypes.ErrLeaseTTLTooLarge, errors.Unwrap(err), "the server's limit counts")
}

// Keys and values in a format of the user's are registered, again after an outage in which the lease was lost, and resolved.
func TestAnotherFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, other := start(t)
		events := make(chan etcd.Event, 100)
		r, err := etcd.Register(within(t), client, etcd.Registration{
			Service: "/svc", Name: "1", Value: "10.0.0.1:1", Notify: func(e etcd.Event) { events <- e },
		})
		require.NoError(t, err)
		registered{r, events}.expect(t, etcd.Registered)
		require.Equal(t, "/svc/1", r.Key())
		require.Equal(t, "10.0.0.1:1", string(cluster.Get("/svc/1").Value))
		require.ErrorContains(t, r.SetWeight(within(t), 2), "Value is set")

		c := newChannel()
		decode := func(value []byte) (string, any, error) {
			if len(value) == 0 {
				return "", nil, errors.New("no address")
			}
			return string(value), "md", nil
		}
		resolveWith(t, other, etcd.Config{Decode: decode, MassRemovalDelay: -1}, "etcd:////svc", c)
		require.Equal(t, []string{"10.0.0.1:1"}, c.state(t))
		require.Equal(t, "md", etcd.Metadata((<-c.endpoints)[0]))
		_, err = cluster.Put("/svc/2", "")
		require.NoError(t, err)

		cluster.Member(0).Stop()
		require.NoError(t, cluster.ExpireLease(int64(r.State().Lease)))
		require.Empty(t, c.state(t))
		cluster.Member(0).Start()
		require.Equal(t, []string{"10.0.0.1:1"}, c.state(t))
		require.NoError(t, r.Withdraw(within(t)))
		require.Empty(t, c.state(t))
	})
}
