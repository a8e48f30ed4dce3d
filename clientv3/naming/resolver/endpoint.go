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
	entries   []*entry
	byAddress map[string][]*entry // usually one each
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
		l.forget(l.entries[i])
		l.entries = slices.Delete(l.entries, i, i+1)
	}
	if c.Deleted {
		return found
	}
	e := &entry{key: c.Key, revision: c.Revision, endpoint: endpointOf(c)}
	l.entries = slices.Insert(l.entries, i, e)
	at := address(e.endpoint)
	l.byAddress[at] = append(l.byAddress[at], e)
	return !feed.Equal(before, []gresolver.Endpoint{e.endpoint}) || len(l.byAddress[at]) > 1
}

func (l *listing) forget(e *entry) {
	at := address(e.endpoint)
	rest := slices.DeleteFunc(l.byAddress[at], func(other *entry) bool { return other == e })
	l.byAddress[at] = rest
	if len(rest) == 0 {
		delete(l.byAddress, at)
	}
}

// endpoints returns one endpoint for each first address, from the key that was written last,
// sorted by key.
func (l *listing) endpoints() []gresolver.Endpoint {
	all := make([]gresolver.Endpoint, 0, len(l.byAddress))
	for _, e := range l.entries {
		if l.newest(address(e.endpoint)) == e {
			all = append(all, e.endpoint)
		}
	}
	return all
}

func (l *listing) newest(at string) *entry {
	return slices.MaxFunc(l.byAddress[at], func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.key, b.key))
	})
}

// address identifies an endpoint.
func address(e gresolver.Endpoint) string { return e.Addresses[0].Addr }

func compareKeys(a, b gresolver.Endpoint) int { return cmp.Compare(Key(a), Key(b)) }

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
