package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/fatal"
)

// swallowed lets the kernel lose all packets between clients and members, and then carry them again. It
// needs a network namespace in which iptables may be used.
func swallowed(ctx context.Context, r *rig, length time.Duration) []row {
	ports := make([]string, 0, members)
	for _, m := range r.cluster.Members() {
		_, address, _ := strings.Cut(m.DirectEndpoint(), "://")
		_, port, err := net.SplitHostPort(address)
		fatal.If(err)
		ports = append(ports, port)
	}
	fatal.If(dropping(ctx, "--append", ports))
	err := pause.For(ctx, length)
	if carried := dropping(context.WithoutCancel(ctx), "--delete", ports); err == nil {
		err = carried
	}
	fatal.If(err)
	r.fleet.mark(ctx)
	served := r.allServed(ctx, time.Now(), returnTimeout, afterOutage)
	return []row{{"all clients served after the network carries again", seconds, served.Seconds()}}
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
