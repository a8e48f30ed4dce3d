package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// podEnvironment is how a process detects that it runs in a pod.
type podEnvironment struct {
	inCluster     func() (*rest.Config, error)
	namespaceFile string // in which the kubelet stores the namespace
}

func currentEnvironment() podEnvironment {
	return podEnvironment{inCluster: rest.InClusterConfig, namespaceFile: "/var/run/secrets/kubernetes.io/serviceaccount/namespace"}
}

// complete returns the configuration with the API server and the namespace filled in. The namespace is that of the pod, else,
// unless the API server was given, that of the kubeconfig's context, else the default one.
func (e podEnvironment) complete(c Config) (Config, error) {
	namespace := ""
	if raw, err := os.ReadFile(e.namespaceFile); err == nil { // it exists only in a pod
		namespace = strings.TrimSpace(string(raw))
	}
	if c.REST == nil {
		kubeconfig := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
		var err error
		if c.REST, err = e.find(kubeconfig); err != nil {
			return c, err
		}
		if namespace == "" {
			namespace, _, _ = kubeconfig.Namespace() // "" with an error
		}
	}
	c.Namespace = cmp.Or(c.Namespace, namespace, "default")
	return c, nil
}

// find returns the default configuration of the API server connection.
func (e podEnvironment) find(kubeconfig clientcmd.ClientConfig) (*rest.Config, error) {
	cfg, err := e.inCluster()
	if err == nil {
		return cfg, nil
	}
	if !errors.Is(err, rest.ErrNotInCluster) {
		return nil, fmt.Errorf("kubernetes: this is a pod, but its service account cannot be used (is automountServiceAccountToken off?): %w", err)
	}
	cfg, err = kubeconfig.ClientConfig()
	if err == nil {
		return cfg, nil
	}
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("kubernetes: no API server: this is not a pod, and neither KUBECONFIG nor ~/.kube/config names one: set Config.REST or KUBECONFIG")
	}
	return nil, fmt.Errorf("kubernetes: the kubeconfig cannot be used: %w", err)
}
