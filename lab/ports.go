package lab

import (
	"fmt"
	"net"
)

// ports are the addresses on 127.0.0.1 where a member itself listens, behind the
// links.
type ports struct {
	client, peer string
}

// freePorts returns ports that nobody listened on a moment ago. Another process may
// take them before the member does; then the member fails to bind, which starting
// it notices.
func freePorts() (ports, error) {
	var held [2]net.Listener
	for i := range held {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports{}, fmt.Errorf("lab: no free port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		held[i] = listener
	}
	return ports{client: held[0].Addr().String(), peer: held[1].Addr().String()}, nil
}
