package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// podNamespaceFile is the file in which the kubelet stores the namespace of a pod.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podEnvironment is how a process detects where it runs.
type podEnvironment struct {
	inCluster     func() (*rest.Config, error)
	kubeconfig    clientcmd.ClientConfig
	namespaceFile string
}

func currentEnvironment() podEnvironment {
	return podEnvironment{
		inCluster: rest.InClusterConfig,
		kubeconfig: clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}),
		namespaceFile: podNamespaceFile,
	}
}

// complete returns the configuration with the API server and the namespace filled in.
func (s podEnvironment) complete(c Config) (Config, error) {
	given := c.REST != nil
	if given {
		c.REST = rest.CopyConfig(c.REST)
	} else {
		found, err := s.find()
		if err != nil {
			return c, err
		}
		c.REST = found
	}
	if c.Namespace == "" {
		c.Namespace = s.namespace(given)
	}
	return c, nil
}

// find returns the default configuration of the API server connection.
func (s podEnvironment) find() (*rest.Config, error) {
	cfg, err := s.inCluster()
	if err == nil {
		return cfg, nil
	}
	if !errors.Is(err, rest.ErrNotInCluster) {
		return nil, fmt.Errorf("kubernetes: this is a pod, but its service account cannot be used (is automountServiceAccountToken off?): %w", err)
	}
	cfg, err = s.kubeconfig.ClientConfig()
	if err == nil {
		return cfg, nil
	}
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("kubernetes: no API server: this is not a pod, and neither KUBECONFIG nor ~/.kube/config names one: set Config.REST or KUBECONFIG")
	}
	return nil, fmt.Errorf("kubernetes: the kubeconfig cannot be used: %w", err)
}

// namespace returns the namespace of the pod, else, unless the API server was given, that
// of the kubeconfig's context, else the default one.
func (s podEnvironment) namespace(given bool) string {
	// The file exists only in a pod.
	if raw, err := os.ReadFile(s.namespaceFile); err == nil {
		if name := strings.TrimSpace(string(raw)); name != "" {
			return name
		}
	}
	if !given {
		if name, _, err := s.kubeconfig.Namespace(); err == nil && name != "" {
			return name
		}
	}
	return "default"
}
