package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/lab/internal/fatal"
)

// Admin returns the configuration of a client that may do everything. Each call
// returns a new one.
func (c *ControlPlane) Admin() *rest.Config { return c.ConfigFor(c.files.admin) }

// ConfigFor returns the configuration of a client with a bearer token.
func (c *ControlPlane) ConfigFor(token string) *rest.Config {
	return &rest.Config{
		Host:            c.URL(),
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.files.certificate()},
		// The limits of client-go, 5 requests a second, are for programs that share
		// an API server.
		QPS: -1,
	}
}

// newAdmin returns a client and its transport, which connects to the present address of the API server, past the link. The
// transport that client-go shares among all clients of a server cannot be closed.
func (c *ControlPlane) newAdmin() (dynamic.Interface, *http.Transport) {
	config := c.Admin()
	transport := fatal.OK(c.newTransport())
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(c.Server().DirectEndpoint(), "http://"))
	}
	authorized := fatal.OK(rest.HTTPWrappersForConfig(config, transport))
	return fatal.OK(dynamic.NewForConfigAndClient(config, &http.Client{Transport: authorized})), transport
}

// newTransport returns a transport that trusts the API server's certificate.
func (c *ControlPlane) newTransport() (*http.Transport, error) {
	security, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: c.files.certificate()}})
	if err != nil {
		return nil, fmt.Errorf("certificate of the API server: %w", err)
	}
	return &http.Transport{TLSClientConfig: security, ForceAttemptHTTP2: true}, nil
}

// checkReady asks the API server at an address whether it is ready, over a connection of its own.
func (c *ControlPlane) checkReady(ctx context.Context, address string) error {
	transport, err := c.newTransport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.files.admin)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz: %s", resp.Status)
	}
	return nil
}
