package resolver

import (
	"cmp"
	"math"
	"reflect"
	"slices"

	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/clientv3/naming/internal/registry"
	"github.com/quorate/quorate/internal/feed"
)

// The members of a metadata object that the resolver interprets.
const (
	weightMember    = "weight"
	addressesMember = "additionalAddresses"
)

type (
	keyKey      struct{}
	metadataKey struct{}
)

// Key returns the etcd key of an endpoint resolved by this package, "" for others.
func Key(ep gresolver.Endpoint) string {
	key, _ := ep.Attributes.Value(keyKey{}).(string)
	return key
}

// Metadata returns the metadata of an endpoint that was resolved by this package, as
// encoding/json decodes into an any: numbers as float64, objects as map[string]any. It is nil for
// others, and for an endpoint without metadata. The caller must not modify it.
func Metadata(ep gresolver.Endpoint) any {
	md, _ := ep.Attributes.Value(metadataKey{}).(metadata)
	return md.value
}

// metadata is an attribute. Unlike its value it is always comparable.
type metadata struct{ value any }

// Equal is used by attributes.Attributes.
func (m metadata) Equal(other any) bool {
	o, ok := other.(metadata)
	return ok && reflect.DeepEqual(m.value, o.value)
}

// listing has the registered endpoints, sorted by key. The cost of a change does not depend on
// their number, except for moving pointers.
type listing struct {
	entries []*entry
	keys    map[string]int // of each address, usually one
}

type entry struct {
	key      string
	revision int64
	endpoint gresolver.Endpoint
}

// apply reports whether a change affects the endpoints.
func (l *listing) apply(c registry.Change) bool {
	i, found := slices.BinarySearchFunc(l.entries, c.Key, func(e *entry, key string) int { return cmp.Compare(e.key, key) })
	var before []gresolver.Endpoint
	if found {
		before = append(before, l.entries[i].endpoint)
		if at := address(before[0]); l.keys[at] > 1 {
			l.keys[at]--
		} else {
			delete(l.keys, at)
		}
		l.entries = slices.Delete(l.entries, i, i+1)
	}
	if c.Deleted {
		return found
	}
	e := &entry{key: c.Key, revision: c.Revision, endpoint: endpointOf(c)}
	l.entries = slices.Insert(l.entries, i, e)
	at := address(e.endpoint)
	l.keys[at]++
	return !feed.Equal(before, []gresolver.Endpoint{e.endpoint}) || l.keys[at] > 1
}

// endpoints returns one endpoint for each first address, from the key that was written last,
// sorted by key.
func (l *listing) endpoints() []gresolver.Endpoint {
	newest := make(map[string]*entry, len(l.keys))
	for _, e := range l.entries {
		if at := address(e.endpoint); newest[at] == nil || newest[at].revision <= e.revision {
			newest[at] = e
		}
	}
	all := make([]gresolver.Endpoint, 0, len(newest))
	for _, e := range l.entries {
		if newest[address(e.endpoint)] == e {
			all = append(all, e.endpoint)
		}
	}
	return all
}

// address identifies an endpoint.
func address(e gresolver.Endpoint) string { return e.Addresses[0].Addr }

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

// additionalAddresses returns the further addresses in a metadata object, none if the member is
// invalid.
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
