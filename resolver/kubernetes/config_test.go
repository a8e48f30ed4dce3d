package kubernetes

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
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
	all := Config{Scheme: "-", Namespace: "-", MaxBackoff: -1}.validate()
	for _, field := range []string{"Scheme", "Namespace", "MaxBackoff"} {
		assert.ErrorContains(t, all, field)
	}
}

func TestNewBuilderValidates(t *testing.T) {
	_, err := NewBuilder(Config{REST: restNowhere(), Scheme: "-"})
	assert.ErrorContains(t, err, "Scheme")
	_, err = NewBuilder(Config{REST: &rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(t.TempDir(), "none")}}})
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
func withKubeconfig(t *testing.T, s podEnvironment, text string) podEnvironment {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	t.Setenv("KUBECONFIG", file)
	s.kubeconfig = currentEnvironment().kubeconfig
	return s
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
		s := noEnvironment(t)
		if c.kubeconfig != "" {
			s = withKubeconfig(t, s, c.kubeconfig)
		}
		s.inCluster = func() (*rest.Config, error) { return &rest.Config{Host: "https://in-cluster"}, c.inCluster }
		b, err := newBuilder(Config{}, s, quick())
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
		s := noEnvironment(t)
		if c.pod {
			s.namespaceFile = file
		}
		if c.kubeconfig {
			s = withKubeconfig(t, s, kubeconfig)
		}
		b, err := newBuilder(c.config, s, quick())
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
