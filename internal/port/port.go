// Package port reserves ports on 127.0.0.1 for servers that start later, perhaps several
// times.
//
// A port that is free now may be taken by any process a moment later, and its answers mistaken
// for those of the server. On Linux a reserved port is bound by a socket that does not listen:
// only a server that names the port and sets SO_REUSEADDR, as servers in Go and nginx do, can
// listen on it, and until one does connections are refused. On other systems a port was merely
// free when it was reserved.
package port

import (
	"fmt"
	"net"
	"strconv"
	"sync"
)

// Port is a reserved port, until Release.
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
