package resolver_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/naming/resolver"
)

// seen is what a balancer reads from an endpoint.
type seen struct {
	key      string
	addrs    []string
	weight   uint32
	metadata any
}

func look(ep gresolver.Endpoint) seen {
	s := seen{key: resolver.Key(ep), weight: balancer.WeightOf(ep), metadata: resolver.Metadata(ep)}
	for _, a := range ep.Addresses {
		s.addrs = append(s.addrs, a.Addr)
	}
	return s
}

func TestEndpoints(t *testing.T) {
	type object = map[string]any
	tests := map[string]struct {
		value string
		want  seen
	}{
		"bare":      {`{"Addr":"a:1"}`, seen{addrs: []string{"a:1"}, weight: 1}},
		"official":  {`{"Op":0,"Addr":"a:1","Metadata":null}`, seen{addrs: []string{"a:1"}, weight: 1}},
		"text":      {`{"Addr":"a:1","Metadata":"m"}`, seen{addrs: []string{"a:1"}, weight: 1, metadata: "m"}},
		"list":      {`{"Addr":"a:1","Metadata":[1]}`, seen{addrs: []string{"a:1"}, weight: 1, metadata: []any{1.0}}},
		"weight":    {`{"Addr":"a:1","Metadata":{"weight":3}}`, seen{addrs: []string{"a:1"}, weight: 3, metadata: object{"weight": 3.0}}},
		"big":       {`{"Addr":"a:1","Metadata":{"weight":4e9}}`, seen{addrs: []string{"a:1"}, weight: balancer.MaxWeight, metadata: object{"weight": 4e9}}},
		"too big":   {`{"Addr":"a:1","Metadata":{"weight":5e9}}`, seen{addrs: []string{"a:1"}, weight: 1, metadata: object{"weight": 5e9}}},
		"fraction":  {`{"Addr":"a:1","Metadata":{"weight":1.5}}`, seen{addrs: []string{"a:1"}, weight: 1, metadata: object{"weight": 1.5}}},
		"negative":  {`{"Addr":"a:1","Metadata":{"weight":-3}}`, seen{addrs: []string{"a:1"}, weight: 1, metadata: object{"weight": -3.0}}},
		"zero":      {`{"Addr":"a:1","Metadata":{"weight":0}}`, seen{addrs: []string{"a:1"}, weight: 1, metadata: object{"weight": 0.0}}},
		"in words":  {`{"Addr":"a:1","Metadata":{"weight":"3"}}`, seen{addrs: []string{"a:1"}, weight: 1, metadata: object{"weight": "3"}}},
		"addresses": {`{"Addr":"a:1","Metadata":{"additionalAddresses":["b:1","a:1","c:1"]}}`, seen{addrs: []string{"a:1", "b:1", "c:1"}, weight: 1, metadata: object{"additionalAddresses": []any{"b:1", "a:1", "c:1"}}}},
		"not all":   {`{"Addr":"a:1","Metadata":{"additionalAddresses":["b:1",7]}}`, seen{addrs: []string{"a:1"}, weight: 1, metadata: object{"additionalAddresses": []any{"b:1", 7.0}}}},
		"an empty":  {`{"Addr":"a:1","Metadata":{"additionalAddresses":[""]}}`, seen{addrs: []string{"a:1"}, weight: 1, metadata: object{"additionalAddresses": []any{""}}}},
		"no list":   {`{"Addr":"a:1","Metadata":{"additionalAddresses":"b:1"}}`, seen{addrs: []string{"a:1"}, weight: 1, metadata: object{"additionalAddresses": "b:1"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster, client, _ := clienttest.StartPair(t)
			clienttest.Put(t, cluster, "svc/x", tt.value)
			c := resolve(t, client, noOutageConfig, "etcd:///svc")
			got := clienttest.Next(t, c.states)
			require.Len(t, got, 1)
			tt.want.key = "svc/x"
			require.Equal(t, tt.want, look(got[0]))
		})
	}
}

// An address under two keys is one endpoint: that of the key written last.
func TestAddressIsRegisteredTwice(t *testing.T) {
	cluster, client, _ := clienttest.StartPair(t)
	put := func(key, value string) { clienttest.Put(t, cluster, key, value) }
	put("svc/b", `{"Addr":"1","Metadata":"old"}`)
	put("svc/a", `{"Addr":"1","Metadata":"new"}`)
	put("svc/c", `{"Addr":"2"}`)
	c := resolve(t, client, noOutageConfig, "etcd:///svc")
	next := func() []seen {
		var all []seen
		for _, ep := range clienttest.Next(t, c.states) {
			all = append(all, look(ep))
		}
		return all
	}
	other := seen{key: "svc/c", addrs: []string{"2"}, weight: 1}
	require.Equal(t, []seen{{key: "svc/a", addrs: []string{"1"}, weight: 1, metadata: "new"}, other}, next())
	put("svc/b", `{"Addr":"1","Metadata":"newer"}`)
	require.Equal(t, []seen{{key: "svc/b", addrs: []string{"1"}, weight: 1, metadata: "newer"}, other}, next())
	put("svc/a", `{"Addr":"1","Metadata":"new"}`)
	require.Equal(t, []seen{{key: "svc/a", addrs: []string{"1"}, weight: 1, metadata: "new"}, other}, next(), "the same value, written last")
	put("svc/b", `{"Addr":"1","Metadata":"newest"}`)
	require.Equal(t, []seen{{key: "svc/b", addrs: []string{"1"}, weight: 1, metadata: "newest"}, other}, next())
	register(t, client, "svc", map[string]string{"b": ""})
	require.Equal(t, []seen{{key: "svc/a", addrs: []string{"1"}, weight: 1, metadata: "new"}, other}, next())
}

// Values in another format than that of package endpoints.
func TestAnotherFormat(t *testing.T) {
	cluster, client, _ := clienttest.StartPair(t)
	clienttest.Put(t, cluster, "/svc/1", "10.0.0.1:1")
	clienttest.Put(t, cluster, "/svc/2", "")
	c := resolve(t, client, resolver.Config{Decode: func(value []byte) (string, any, error) {
		if len(value) == 0 {
			return "", nil, errors.New("no address")
		}
		return string(value), "md", nil
	}}, "etcd:////svc")
	found := clienttest.Next(t, c.states)
	require.Len(t, found, 1)
	require.Equal(t, seen{key: "/svc/1", addrs: []string{"10.0.0.1:1"}, weight: 1, metadata: "md"}, look(found[0]))
}

func TestEndpointsOfOthers(t *testing.T) {
	require.Empty(t, resolver.Key(gresolver.Endpoint{}))
	require.Nil(t, resolver.Metadata(gresolver.Endpoint{}))
}
