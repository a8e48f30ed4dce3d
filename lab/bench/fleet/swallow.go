package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

// swallowed lets the kernel lose all packets between clients and members, and then carry them again. It
// needs a network namespace in which iptables may be used.
func swallowed(ctx context.Context, r *rig, p phase) ([]row, error) {
	ports := make([]string, 0, members)
	for _, m := range r.cluster.Members() {
		_, address, _ := strings.Cut(m.DirectEndpoint(), "://")
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	if err := dropping(ctx, "--append", ports); err != nil {
		return nil, err
	}
	err := pause.For(ctx, p.length)
	if carried := dropping(context.WithoutCancel(ctx), "--delete", ports); err == nil {
		err = carried
	}
	if err != nil {
		return nil, err
	}
	if err := r.fleet.mark(ctx); err != nil {
		return nil, err
	}
	served, err := r.allServed(ctx, time.Now(), returnTimeout, afterOutage)
	return []row{{"all clients served after the network carries again", seconds, served.Seconds()}}, err
}

// dropping appends or deletes the rule that drops what is sent to or from the ports.
func dropping(ctx context.Context, command string, ports []string) error {
	rule := []string{"--wait", command, "INPUT", "--protocol", "tcp", "--match", "multiport", "--ports", strings.Join(ports, ","), "--jump", "DROP"}
	out, err := exec.CommandContext(ctx, "iptables", rule...).CombinedOutput() //nolint:gosec // the ports are numbers
	if err != nil {
		return fmt.Errorf("iptables: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
