package lab

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/internal/port"
)

// ports are the addresses on 127.0.0.1 where a member itself listens, behind the
// links.
type ports struct {
	client, peer string
	reserved     [2]*port.Port
}

// freePorts returns ports that are the member's until release, whether it runs or not,
// where the system allows that. Elsewhere another process may take them while the member
// does not run; then the member fails to bind, which starting it notices.
func freePorts() (ports, error) {
	var p ports
	for i := range p.reserved {
		var err error
		if p.reserved[i], err = port.Reserve(); err != nil {
			return ports{}, errors.Join(fmt.Errorf("lab: %w", err), p.release())
		}
	}
	p.client, p.peer = p.reserved[0].Address(), p.reserved[1].Address()
	return p, nil
}

// release gives the ports up.
func (p ports) release() error {
	var errs []error
	for _, r := range p.reserved {
		if r != nil {
			errs = append(errs, r.Release())
		}
	}
	return errors.Join(errs...)
}
