// Package port reserves ports on 127.0.0.1 for servers that start later, and again.
//
// A port that is free at one moment may be taken at the next by any process, whose answers are
// then taken for those of the server. On Linux a reserved port is bound by a socket that does
// not listen: only a server that names the port and sets SO_REUSEADDR, as servers in Go and
// nginx do, can listen on it, and until one does connections are refused. Elsewhere a port is
// only one that was free when it was reserved.
package port

import (
	"fmt"
	"net"
	"strconv"
	"sync"
)

// Port is one that is reserved, until Release.
type Port struct {
	number  int
	release func() error
}

// Reserve returns a port that no socket uses.
func Reserve() (*Port, error) {
	number, release, err := reserve()
	if err != nil {
		return nil, fmt.Errorf("no free port: %w", err)
	}
	return &Port{number, sync.OnceValue(release)}, nil
}

// Address returns the address of the port.
func (p *Port) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// Release gives the port up. Releasing it again returns the same result.
func (p *Port) Release() error { return p.release() }
