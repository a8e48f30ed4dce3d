package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/quorate/quorate/lab/servers/site"
)

// Program is the program of behaviours, compiled with clients.
type Program struct {
	dir   string
	paths map[Client]string
}

// BuildProgram compiles the program with each of some clients. Flags are those of go build.
func BuildProgram(ctx context.Context, clients []Client, flags ...string) (*Program, error) {
	dir, err := os.MkdirTemp("", "quorate-behaviours-")
	if err != nil {
		return nil, err
	}
	p := &Program{dir, make(map[Client]string)}
	for _, c := range clients {
		if p.paths[c], err = c.Build(ctx, dir, "./behaviours/program", flags...); err != nil {
			p.Remove()
			return nil, err
		}
	}
	return p, nil
}

// Remove removes the program.
func (p *Program) Remove() { _ = os.RemoveAll(p.dir) }

// List returns all behaviours.
func (p *Program) List(ctx context.Context) (list []site.Behaviour, err error) {
	out, err := exec.CommandContext(ctx, p.paths[Quorate], "list").Output()
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("list of behaviours: %w", err)
	}
	return list, nil
}

// Run runs behaviours on a site with a client, in a process of their own, in this order.
func (p *Program) Run(ctx context.Context, c Client, s site.Site, names ...string) (o site.Outcome, err error) {
	told, err := json.Marshal(s)
	if err != nil {
		return o, err
	}
	cmd := exec.CommandContext(ctx, p.paths[c], append([]string{"run"}, names...)...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(told), &stderr
	out, err := cmd.Output()
	if err != nil {
		return o, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return o, json.Unmarshal(out, &o)
}
