package kubernetes

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/grpctest"
)

func restNowhere() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:1"} }

func TestConfigValidate(t *testing.T) {
	assert.NoError(t, Config{}.validate())
	assert.NoError(t, Config{Scheme: "k8s+v2", Namespace: "shop", Zone: "a", Node: "n", MaxBackoff: firstPause}.validate())
	for want, c := range map[string]Config{
		"kubernetes: Config.Scheme":         {Scheme: "Kubernetes"},
		`Scheme "k8s:" is not a URL scheme`: {Scheme: "k8s:"},
		`Scheme "8s" is not a URL scheme`:   {Scheme: "8s"},
		`Namespace "a.b" is not the name`:   {Namespace: "a.b"},
		"MaxBackoff is 1ms: use at":         {MaxBackoff: time.Millisecond},
		"MaxBackoff is -1s: use at":         {MaxBackoff: -time.Second},
	} {
		assert.ErrorContains(t, c.validate(), want)
	}
	_, all := NewBuilder(Config{REST: restNowhere(), Scheme: "-", Namespace: "-", MaxBackoff: -1})
	for _, field := range []string{"Scheme", "Namespace", "MaxBackoff"} {
		assert.ErrorContains(t, all, field)
	}
	_, err := NewBuilder(Config{REST: &rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(t.TempDir(), "none")}}})
	assert.ErrorContains(t, err, "Config.REST cannot be used")
	b, err := NewBuilder(Config{REST: restNowhere(), Scheme: "k8s"})
	require.NoError(t, err)
	assert.Equal(t, "k8s", b.Scheme())
	b, err = NewBuilder(Config{REST: restNowhere()})
	require.NoError(t, err)
	assert.Equal(t, "kubernetes", b.Scheme())
}

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, namespace: from-context}}]
clusters: [{name: k, cluster: {server: "https://127.0.0.1:1"}}]
`

// withKubeconfig adds a kubeconfig to the environment.
func withKubeconfig(t *testing.T, env podEnvironment, text string) podEnvironment {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	t.Setenv("KUBECONFIG", file)
	return env
}

// The service account of a pod comes before a kubeconfig.
func TestDefaultAPIServer(t *testing.T) {
	for want, c := range map[string]struct {
		inCluster  error
		kubeconfig string
	}{
		"set Config.REST or KUBECONFIG":             {rest.ErrNotInCluster, ""},
		"automountServiceAccountToken":              {errors.New("open token: no such file"), kubeconfig},
		"kubernetes: the kubeconfig cannot be used": {rest.ErrNotInCluster, "{"},
		"https://127.0.0.1:1":                       {rest.ErrNotInCluster, kubeconfig},
		"https://in-cluster":                        {nil, kubeconfig},
	} {
		env := noEnvironment(t)
		if c.kubeconfig != "" {
			env = withKubeconfig(t, env, c.kubeconfig)
		}
		env.inCluster = func() (*rest.Config, error) { return &rest.Config{Host: "https://in-cluster"}, c.inCluster }
		b, err := newBuilder(Config{}, env, quick())
		if err != nil {
			assert.ErrorContains(t, err, want)
			continue
		}
		assert.Equal(t, want, b.cfg.REST.Host)
	}
}

func TestNamespaceOfTargetsThatNameNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	require.NoError(t, os.WriteFile(file, []byte("of-pod\n"), 0o600))
	for want, c := range map[string]struct {
		config          Config
		pod, kubeconfig bool
	}{
		"configured":   {config: Config{Namespace: "configured"}, pod: true, kubeconfig: true},
		"of-pod":       {pod: true, kubeconfig: true},
		"from-context": {kubeconfig: true},
		"default":      {config: Config{REST: restNowhere()}, kubeconfig: true},
	} {
		env := noEnvironment(t)
		if c.pod {
			env.namespaceFile = file
		}
		if c.kubeconfig {
			env = withKubeconfig(t, env, kubeconfig)
		}
		b, err := newBuilder(c.config, env, quick())
		require.NoError(t, err, want)
		assert.Equal(t, want, b.cfg.Namespace)
	}
}

func TestConfigIsCopied(t *testing.T) {
	mine := restNowhere()
	b := newTestBuilder(t, Config{REST: mine}, quick())
	mine.Host = "https://changed"
	assert.Equal(t, "https://127.0.0.1:1", b.links.config.Host)
	assert.Nil(t, mine.GroupVersion)
}

func TestBackoff(t *testing.T) {
	var b backoff
	between := func(longest, low, high time.Duration) {
		t.Helper()
		got := b.pause(longest)
		assert.GreaterOrEqual(t, got, low)
		assert.LessOrEqual(t, got, high)
	}
	assert.Zero(t, b.pause(time.Second), "the first retry follows at once")
	between(time.Second, firstPause/2, firstPause)
	between(time.Second, firstPause*8/10, firstPause*16/10)
	for range 50 {
		b.pause(time.Second)
	}
	between(time.Second, time.Second/2, time.Second)
	between(time.Minute, 800*time.Millisecond, 1600*time.Millisecond)
	between(firstPause, firstPause/2, firstPause)
	b.reset()
	assert.Zero(t, b.pause(time.Second))
}

func TestParseTarget(t *testing.T) {
	ports := map[string]port{"": {}, ":grpc": {name: "grpc"}, ":8080": {number: 8080}}
	namespaces := map[string]string{"users": "home", "users.shop": "shop", "users.shop.svc": "shop", "users.shop.svc.cluster.local.": "shop", "users.shop.anything_at.ALL": "shop"}
	want := map[string]serviceTarget{
		// Names that look like ports.
		"kubernetes:///80.443:1":    {service: serviceKey{namespace: "443", name: "80"}, port: port{number: 1}},
		"kubernetes:///users:65535": {service: serviceKey{namespace: "home", name: "users"}, port: port{number: 65535}},
		"kubernetes:///users:8080a": {service: serviceKey{namespace: "home", name: "users"}, port: port{name: "8080a"}},
	}
	for suffix, p := range ports {
		for name, namespace := range namespaces {
			d := serviceTarget{service: serviceKey{namespace: namespace, name: "users"}, port: p}
			want["kubernetes:///"+name+suffix], want["kubernetes:/"+name+suffix], want["kubernetes:"+name+suffix] = d, d, d
			if p.name == "" { // a URL has no named port after the authority
				want["kubernetes://"+name+suffix], want["kubernetes://"+name+suffix+"/"] = d, d
			}
			d.service.namespace = "shop"
			want["kubernetes://shop/"+name+suffix] = d
		}
	}
	for text, d := range want {
		got, err := parseTarget(grpctest.Target(t, text), "home")
		if assert.NoError(t, err, text) {
			assert.Equal(t, d, got, text)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"kubernetes:///":                         "names no service",
		"kubernetes://":                          "names no service",
		"kubernetes:///:8080":                    `"" cannot be the name of a service`,
		"kubernetes:///users:":                   "the port after the colon is empty",
		"kubernetes://users.shop:":               "the port after the colon is empty",
		"kubernetes:///users.":                   "the namespace after the first dot",
		"kubernetes:///users.:8080":              "the namespace after the first dot",
		"kubernetes:///users..svc":               "the namespace after the first dot",
		"kubernetes:///.shop":                    `"" cannot be the name of a service`,
		"kubernetes:///users:80:90":              "two colons",
		"kubernetes:///users:0":                  "not between 1 and 65535",
		"kubernetes:///users:65536":              "not between 1 and 65535",
		"kubernetes:///users:99999999999999999":  "not between 1 and 65535",
		"kubernetes:///users:-1":                 "cannot be the name of a port",
		"kubernetes:///users:GRPC":               "cannot be the name of a port",
		"kubernetes:///shop/users":               `has a "/" in it`,
		"kubernetes:///users:8080/":              `has a "/" in it`,
		"kubernetes://shop/users/more":           `has a "/" in it`,
		"kubernetes://shop:1/users:80":           `port after the authority "shop:1" and a path besides`,
		"kubernetes://users.shop:80/ignored":     `port after the authority "users.shop:80" and a path besides`,
		"kubernetes://shop/users.other":          `names two namespaces, "shop" and "other"`,
		"kubernetes://shop/users.other.svc:8080": `names two namespaces, "shop" and "other"`,
		"kubernetes://users.shop/users":          `"users.shop" cannot be the name of a namespace`,
		"kubernetes:///Users.shop":               `"Users" cannot be the name of a service`,
		"kubernetes:///users.Shop":               `"Shop" cannot be the name of a namespace`,
		"kubernetes:///users_v2":                 `"users_v2" cannot be the name of a service`,
		"kubernetes:///a&labelSelector=x":        "cannot be the name of a service",
		"kubernetes:///a,app=x":                  "cannot be the name of a service",
		"kubernetes:///a%26labelSelector=x":      "cannot be the name of a service",
		"kubernetes:///users?a=b":                `"?" and "#" have no meaning`,
		"kubernetes:///users?":                   `"?" and "#" have no meaning`,
		"kubernetes:///users#a":                  `"?" and "#" have no meaning`,
		"kubernetes://me:hunter2@users":          `"@" has no meaning`,
		"kubernetes://[::1]:80":                  "two colons",
	} {
		_, err := parseTarget(grpctest.Target(t, text), "home")
		if assert.Error(t, err, text) {
			assert.Contains(t, err.Error(), why, text)
			assert.Contains(t, err.Error(), "kubernetes: target ", text)
			assert.NotContains(t, err.Error(), "hunter2", "a password is not shown")
		}
	}
}

func TestAuthority(t *testing.T) {
	b := newTestBuilder(t, Config{REST: restNowhere(), Namespace: "home"}, quick())
	for text, want := range map[string]string{
		"kubernetes:///users":                        "users.home",
		"kubernetes:///users:grpc":                   "users.home",
		"kubernetes:///users.shop:8080":              "users.shop:8080",
		"kubernetes://shop/users:8080":               "users.shop:8080",
		"kubernetes:///users.shop.svc.cluster.local": "users.shop",
		"kubernetes:///users:80:90":                  "users:80:90", // refused by Build
	} {
		assert.Equal(t, want, b.OverrideAuthority(grpctest.Target(t, text)), text)
	}
}

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
