//go:build kubernetes

package main

import (
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/resolver"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quorate/quorate/resolver/kubernetes"
)

// builder returns the resolver for Kubernetes services.
func (f kubernetesFlags) builder() (resolver.Builder, error) {
	cfg := kubernetes.Config{Namespace: f.namespace, Zone: f.zone, Node: f.node}
	if f.kubeconfig != "" || f.context != "" {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = f.kubeconfig
		loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
		rest, err := loaded.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig, --context: %w", err)
		}
		cfg.REST = rest
		if namespace, _, err := loaded.Namespace(); err == nil && cfg.Namespace == "" {
			cfg.Namespace = namespace
		}
	}
	b, err := kubernetes.NewBuilder(cfg)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w; give --kubeconfig", err)
	}
	return b, err
}
