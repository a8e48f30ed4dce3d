package etcd

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"

	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/registry"
)

// The members of a metadata object that mean something here.
const (
	weightMember    = "weight"
	addressesMember = "additionalAddresses"
)

type (
	keyKey      struct{}
	metadataKey struct{}
)

// Key returns the key in etcd of an endpoint that was resolved by this package, and "" for
// others.
func Key(ep gresolver.Endpoint) string {
	key, _ := ep.Attributes.Value(keyKey{}).(string)
	return key
}

// Metadata returns the metadata of an endpoint that was resolved by this package, as
// encoding/json decodes into an any: numbers as float64, objects as map[string]any. It is nil for
// others, and for an endpoint without metadata. It must not be changed.
func Metadata(ep gresolver.Endpoint) any {
	md, _ := ep.Attributes.Value(metadataKey{}).(metadata)
	return md.value
}

// metadata is an attribute. Unlike its value it can always be compared.
type metadata struct{ value any }

// Equal is used by attributes.Attributes.
func (m metadata) Equal(other any) bool {
	o, ok := other.(metadata)
	return ok && reflect.DeepEqual(m.value, o.value)
}

// endpointsOf returns the endpoints of keys, in the order of these. Of several with the same
// first address it returns the one that was written last.
func endpointsOf(listed map[string]registry.Change) []gresolver.Endpoint {
	newest := make(map[string]registry.Change, len(listed))
	for _, c := range listed {
		other, ok := newest[c.Endpoint.Addr]
		if !ok || cmp.Or(cmp.Compare(c.Revision, other.Revision), cmp.Compare(c.Key, other.Key)) > 0 {
			newest[c.Endpoint.Addr] = c
		}
	}
	byKey := func(a, b registry.Change) int { return cmp.Compare(a.Key, b.Key) }
	endpoints := make([]gresolver.Endpoint, 0, len(newest))
	for _, c := range slices.SortedFunc(maps.Values(newest), byKey) {
		endpoints = append(endpoints, endpointOf(c))
	}
	return endpoints
}

func endpointOf(c registry.Change) gresolver.Endpoint {
	ep := gresolver.Endpoint{Addresses: []gresolver.Address{{Addr: c.Endpoint.Addr}}}
	ep.Attributes = ep.Attributes.WithValue(keyKey{}, c.Key)
	if c.Endpoint.Metadata != nil {
		ep.Attributes = ep.Attributes.WithValue(metadataKey{}, metadata{c.Endpoint.Metadata})
	}
	object, _ := c.Endpoint.Metadata.(map[string]any)
	for _, addr := range additionalAddresses(object) {
		if a := (gresolver.Address{Addr: addr}); !slices.ContainsFunc(ep.Addresses, a.Equal) {
			ep.Addresses = append(ep.Addresses, a)
		}
	}
	if weight, ok := weightIn(object); ok {
		ep = balancer.SetWeight(ep, weight)
	}
	return ep
}

// weightIn returns the weight in a metadata object, if there is one.
func weightIn(object map[string]any) (uint32, bool) {
	weight, ok := object[weightMember].(float64)
	if !ok || weight < 1 || weight > math.MaxUint32 || weight != math.Trunc(weight) {
		return 0, false
	}
	return uint32(weight), true
}

// additionalAddresses returns the further addresses in a metadata object, and nothing if
// they are not all what they should be.
func additionalAddresses(object map[string]any) []string {
	all, _ := object[addressesMember].([]any)
	addrs := make([]string, 0, len(all))
	for _, a := range all {
		addr, ok := a.(string)
		if !ok || addr == "" {
			return nil
		}
		addrs = append(addrs, addr)
	}
	return addrs
}

// equal reports whether two lists of endpoints are the same to a channel.
func equal(a, b []gresolver.Endpoint) bool {
	return slices.EqualFunc(a, b, func(x, y gresolver.Endpoint) bool {
		return slices.EqualFunc(x.Addresses, y.Addresses, gresolver.Address.Equal) && x.Attributes.Equal(y.Attributes)
	})
}
