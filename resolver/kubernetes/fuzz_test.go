package kubernetes

import (
	"net/url"
	"testing"

	"google.golang.org/grpc/resolver"
	"k8s.io/apimachinery/pkg/labels"
)

// A parsed target names exactly one service, and its selector matches nothing else.
func FuzzParseTarget(f *testing.F) {
	for _, seed := range []string{
		"kubernetes:///users.shop.svc:grpc", "kubernetes://shop/users:80", "kubernetes:users", "kubernetes://users.shop:80/",
		"kubernetes:///a&labelSelector=x", "kubernetes:///a,b!=c", "kubernetes://a:1/b:2", "kubernetes:///a%2Cb:%20",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			t.Skip()
		}
		d, err := parseTarget(resolver.Target{URL: *u}, "home")
		if err != nil {
			return
		}
		selector := labels.Set{"service": d.service.name}.String()
		parsed, err := labels.Parse(selector)
		if err != nil {
			t.Fatalf("%q: selector %q: %v", text, selector, err)
		}
		if value, ok := parsed.RequiresExactMatch("service"); !ok || value != d.service.name {
			t.Fatalf("%q: selector %q asks for more than the service", text, selector)
		}
		if requirements, _ := parsed.Requirements(); len(requirements) != 1 {
			t.Fatalf("%q: selector %q", text, selector)
		}
		if d.service.validate() != nil || d.port.number < 0 || d.port.number > 65535 || d.port.name != "" && d.port.number != 0 {
			t.Fatalf("%q: %+v", text, d)
		}
	})
}
