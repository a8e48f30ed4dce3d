package kube

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/client-go/dynamic"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/lab/internal/fatal"
)

// Admin returns the configuration of a client that may do everything. Each call
// returns a new one.
func (c *ControlPlane) Admin() *rest.Config { return c.ConfigFor(c.files.admin) }

// ConfigFor returns the configuration of a client with a bearer token.
func (c *ControlPlane) ConfigFor(token string) *rest.Config {
	return c.configFor(token, c.Link().Addr())
}

func (c *ControlPlane) configFor(token, address string) *rest.Config {
	return &rest.Config{
		Host:            "https://" + address,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.files.certificate()},
		// The limits of client-go, 5 requests a second, are for programs that share
		// an API server.
		QPS: -1,
	}
}

// clientOf returns the configuration of the administrator for an address, and a client whose connections end with their
// requests. Those of the transport that client-go shares among all clients of a server cannot be closed. An error ends it, see
// package fatal.
func (c *ControlPlane) clientOf(address string) (*rest.Config, *http.Client) {
	config := c.configFor(c.files.admin, address)
	security, err := rest.TLSConfigFor(config)
	fatal.If(err, "certificate of the API server")
	authorized := fatal.OK(rest.HTTPWrappersForConfig(config, &http.Transport{TLSClientConfig: security, DisableKeepAlives: true}))
	return config, &http.Client{Transport: authorized}
}

// connect makes the clients of the methods, which do not go through the link.
func (c *ControlPlane) connect() {
	config, client := c.clientOf(strings.TrimPrefix(c.Server().DirectEndpoint(), "http://"))
	c.core = fatal.OK(core.NewForConfigAndClient(config, client))
	c.admin = fatal.OK(dynamic.NewForConfigAndClient(config, client))
}

// checkReady asks the API server at an address whether it is ready.
func (c *ControlPlane) checkReady(ctx context.Context, address string) error {
	return fatal.Catch(func() {
		asking := fatal.OK(core.NewForConfigAndClient(c.clientOf(address)))
		fatal.If(asking.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error())
	})
}
