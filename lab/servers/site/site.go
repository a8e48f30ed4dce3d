// Package site has the messages between a program that starts servers and the programs of behaviours that use them.
package site

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// Setup names the way in which a server is set up.
type Setup string

// The setups.
const (
	// Plain is a server that the behaviours of a client share.
	Plain Setup = "plain"
	// Own is a plain server for one behaviour.
	Own Setup = "own"
	// Auth is a plain server for one behaviour, which switches authentication on.
	Auth Setup = "authentication"
	// Tokens is a server whose tokens expire after two seconds.
	Tokens Setup = "tokens"
	// TLS is a server that demands client certificates.
	TLS Setup = "TLS"
	// None is no server.
	None Setup = "none"
	// Single is a new server for all recorded behaviours of this setup, one after the other; Secured is the same with TLS.
	Single  Setup = "single"
	Secured Setup = "single, TLS"
)

// Outcome is what a program of behaviours prints.
type Outcome struct {
	Entries []transcript.Entry
	// Error is the error of the behaviour that failed, "" if all completed.
	Error string
}

// Site describes its server to a behaviour.
type Site struct {
	// Endpoints are the members' URLs, through proxies that they advertise as their own.
	Endpoints []string
	// Direct is the first member's URL past the proxy.
	Direct string
	// Files are the paths of the certificates, empty without TLS.
	Files Files
	// Control is the URL at which acts are posted.
	Control string
	// Limit is how long each behaviour may take.
	Limit time.Duration
}

// Files are the paths of a client's certificates.
type Files struct {
	CA, ClientCert, ClientKey string
}

// TLS returns the configuration of a client with these certificates, nil without any.
func (f Files) TLS() (*tls.Config, error) {
	if f.CA == "" {
		return nil, nil
	}
	return transport.TLSInfo{TrustedCAFile: f.CA, CertFile: f.ClientCert, KeyFile: f.ClientKey, ServerName: "localhost"}.ClientConfig()
}

// Act is what a behaviour asks to be done to the server.
type Act string

// The acts.
const (
	// Kill ends the server with SIGKILL.
	Kill Act = "kill"
	// Restart starts it again on its data and returns when it serves.
	Restart Act = "restart"
	// Stop freezes it, as a hung host would, and returns when it does not answer. Continue lets it go on.
	Stop     Act = "stop"
	Continue Act = "continue"
	// Backup copies its data: it is killed and started again.
	Backup Act = "backup"
	// Restore kills it and starts it with the data of the backup.
	Restore Act = "restore"
	// Cut makes the proxy refuse connections, and ends the existing ones.
	Cut Act = "cut"
	// Heal ends what Cut began.
	Heal Act = "heal"
)

// Do asks for an act and returns when it is done. An error ends it, see package fatal.
func (s Site) Do(ctx context.Context, act Act) {
	req := fatal.OK(http.NewRequestWithContext(ctx, http.MethodPost, s.Control+"/"+string(act), http.NoBody))
	resp := fatal.OK(http.DefaultClient.Do(req))
	defer func() { _ = resp.Body.Close() }()
	text := fatal.OK(io.ReadAll(resp.Body))
	if resp.StatusCode != http.StatusOK {
		fatal.If(fmt.Errorf("%s: %s", act, text))
	}
}
