package balancer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"
)

type securityKey struct{}

// address returns an address whose attributes have a security, as in clientv3.
func address(addr, serverName, security string) resolver.Address {
	a := resolver.Address{Addr: addr, ServerName: serverName}
	if security != "" {
		a.Attributes = attributes.New(securityKey{}, security)
	}
	return a
}

func TestSecurityIsPartOfTheIdentityOfAnEndpoint(t *testing.T) {
	plain, tls := address("h:1", "h", "plain"), address("h:1", "h", "tls")
	tests := map[string]struct {
		a, b []resolver.Address
		want bool
	}{
		"the same":                {[]resolver.Address{plain}, []resolver.Address{address("h:1", "h", "plain")}, true},
		"security":                {[]resolver.Address{plain}, []resolver.Address{tls}, false},
		"no security":             {[]resolver.Address{plain}, []resolver.Address{address("h:1", "h", "")}, false},
		"server name":             {[]resolver.Address{plain}, []resolver.Address{address("h:1", "i", "plain")}, false},
		"address":                 {[]resolver.Address{plain}, []resolver.Address{address("h:2", "h", "plain")}, false},
		"another address":         {[]resolver.Address{plain}, []resolver.Address{plain, tls}, false},
		"the order of addresses":  {[]resolver.Address{plain, address("h:2", "h", "")}, []resolver.Address{address("h:2", "h", ""), plain}, true},
		"the order of securities": {[]resolver.Address{plain, tls}, []resolver.Address{tls, plain}, false},
		"security of the second":  {[]resolver.Address{plain, plain}, []resolver.Address{plain, tls}, false},
		"several equal addresses": {[]resolver.Address{plain, tls}, []resolver.Address{plain, tls}, true},
	}
	for name, tt := range tests {
		assert.Equal(t, tt.want, same(tt.a, tt.b), name)
		assert.Equal(t, tt.want, same(tt.b, tt.a), name)
	}
}

func TestEndpointsAreUnique(t *testing.T) {
	endpoint := func(addresses ...resolver.Address) resolver.Endpoint { return resolver.Endpoint{Addresses: addresses} }
	a, b, tls := address("a", "", ""), address("b", "", ""), address("a", "", "tls")
	p := newPolicy(nil, Builder{})
	p.config = defaultConfig
	defer p.Close()
	assert.Empty(t, p.replaceLocked([]resolver.Endpoint{endpoint(a), endpoint(), endpoint(b), endpoint(a), endpoint(tls), endpoint(a, b), endpoint(b)}))
	var kept [][]resolver.Address
	for _, ep := range p.endpoints {
		kept = append(kept, ep.addresses)
	}
	assert.Equal(t, [][]resolver.Address{{a}, {b}, {tls}, {a, b}}, kept)
	assert.Len(t, p.options().Table.All(), len(kept), "each has its own health")
	assert.Len(t, p.replaceLocked(nil), len(kept))
	assert.Empty(t, p.endpoints)
}

// gRPC's warnings print the attributes of an address.
func TestKeysOfAttributesHaveNames(t *testing.T) {
	assert.Equal(t, "quorate.subConn", fmt.Sprint(subConnKey{}))
	for _, key := range []any{subConnKey{}, weightKey{}, optionsKey{}} {
		assert.Implements(t, (*fmt.Stringer)(nil), key)
	}
	s := &subConn{ep: &Endpoint{addresses: []resolver.Address{{Addr: "a"}}}}
	assert.NotContains(t, markedAddresses(s)[0].Attributes.String(), "%!p")
	assert.Contains(t, SetWeight(resolver.Endpoint{}, 3).Attributes.String(), `"quorate.weight": "3"`)
}
