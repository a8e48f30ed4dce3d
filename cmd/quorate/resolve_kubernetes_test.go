//go:build kubernetes

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/resolver/kubernetes/fakeapiserver"
)

// kubeconfig returns the name of a file that leads to an API server.
func kubeconfig(t *testing.T, server string, ca []byte) string {
	t.Helper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	cfg.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	cfg.CurrentContext = "c"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*cfg, file))
	return file
}

func TestResolveFollowsHints(t *testing.T) {
	api, err := fakeapiserver.Start()
	require.NoError(t, err)
	t.Cleanup(api.Close)
	endpoint := func(addr, zone, node string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{addr}, Hints: &discoveryv1.EndpointHints{
				ForZones: []discoveryv1.ForZone{{Name: zone}}, ForNodes: []discoveryv1.ForNode{{Name: node}},
			},
		}
	}
	port, name := int32(80), "grpc"
	_, err = api.Create(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "billing-1", Labels: map[string]string{discoveryv1.LabelServiceName: "billing"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{endpoint("10.0.0.1", "a", "n1"), endpoint("10.0.0.2", "a", "n2"), endpoint("10.0.0.3", "b", "n3")},
	})
	require.NoError(t, err)
	file := kubeconfig(t, api.URL(), api.CAData())
	for _, tt := range []struct {
		args string
		want int
	}{
		{"", 3}, {"--zone a", 2}, {"--node n2", 1}, {"--zone b --node n2", 1}, {"--zone a --node n4", 2},
	} {
		t.Run(tt.args, func(t *testing.T) {
			args := append([]string{"kubernetes:///billing.shop:grpc", "--once", "--kubeconfig", file}, strings.Fields(tt.args)...)
			status, stdout, stderr := clitest.Exec(grpctest.Within(t, testTimeout), newResolveCommand(), args...)
			assert.Equal(t, cli.OK, status, stderr)
			assert.Equal(t, tt.want, strings.Count(stdout, "  + 10.0.0."), stdout)
			if strings.Contains(tt.args, "n2") {
				assert.Contains(t, stdout, "+ 10.0.0.2:80")
			}
		})
	}
}

func TestResolveRefusesBadKubernetesTargets(t *testing.T) {
	for args, want := range map[string]string{
		"kubernetes:///svc:99999 --once --kubeconfig " + kubeconfig(t, "https://127.0.0.1:1", nil): "99999",
		"kubernetes:///billing --kubeconfig nosuch.yaml":                                           "nosuch.yaml",
	} {
		status, _, stderr := clitest.Exec(t.Context(), newResolveCommand(), strings.Fields(args)...)
		assert.Equal(t, cli.Failure, status)
		assert.Contains(t, stderr, want)
	}
}
