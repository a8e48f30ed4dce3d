package contract

import (
	"context"
	"crypto/tls"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/contract/transcript"
)

// Site is what the program is told about the cluster that it runs against.
type Site struct {
	// Endpoints are the members' client URLs.
	Endpoints []string
	// TLS is the client configuration, nil for a cluster without TLS.
	TLS *tls.Config
	// Files are the paths that TLS was read from, empty for a cluster without TLS.
	Files lab.TLSFiles
	// Freeze stops all members without closing their connections, as a hung host would; Thaw lets them go on.
	Freeze, Thaw func() error
	// Outage ends the first member, which does not lead then, and starts it again when meanwhile has returned.
	Outage func(meanwhile func()) error
	// Maroon ends all members but one, and returns the endpoint of that one.
	Maroon func() (endpoint string, err error)
}

// Scenario is one part of the program. Scenarios of one cluster run one after the other, in order, so that revisions
// are the same for both clients.
type Scenario struct {
	Name string
	Run  func(ctx context.Context, site Site, log *transcript.Log)
}
