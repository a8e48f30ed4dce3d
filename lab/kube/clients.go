package kube

import (
	"context"
	"net/http"
	"strings"

	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/fatal"
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

// Direct returns the configuration of the administrator past the link, and a client whose connections end with their requests.
// Those of the transport that client-go shares among all clients of a server cannot be closed. An error ends it, see package fatal.
func (c *ControlPlane) Direct() (*rest.Config, *http.Client) {
	return c.direct(strings.TrimPrefix(c.Server().DirectEndpoint(), "http://"))
}

func (c *ControlPlane) direct(address string) (*rest.Config, *http.Client) {
	config := c.configFor(c.files.admin, address)
	security, err := rest.TLSConfigFor(config)
	fatal.If(err, "certificate of the API server")
	authorized := fatal.OK(rest.HTTPWrappersForConfig(config, &http.Transport{TLSClientConfig: security, DisableKeepAlives: true}))
	return config, &http.Client{Transport: authorized}
}

// checkReady asks the API server at an address whether it is ready.
func (c *ControlPlane) checkReady(ctx context.Context, address string) error {
	return fatal.Catch(func() {
		asking := fatal.OK(core.NewForConfigAndClient(c.direct(address)))
		fatal.If(asking.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error())
	})
}
