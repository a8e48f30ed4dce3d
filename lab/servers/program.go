package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/servers/site"
)

// Program is a program of the lab, compiled with clients.
type Program struct {
	// Paths are those of its executables.
	Paths map[Client]string

	dir string
}

// BuildProgram compiles a program, such as "./behaviours/program", with each of some clients. Flags are those of go build.
func BuildProgram(ctx context.Context, program string, clients []Client, flags ...string) (*Program, error) {
	dir, err := os.MkdirTemp("", "quorate-program-")
	if err != nil {
		return nil, err
	}
	p := &Program{make(map[Client]string), dir}
	err = fatal.Catch(func() {
		for _, c := range clients {
			p.Paths[c] = c.build(ctx, dir, program, flags...)
		}
	})
	if err != nil {
		p.Remove()
		return nil, err
	}
	return p, nil
}

// Remove removes the program.
func (p *Program) Remove() { _ = os.RemoveAll(p.dir) }

// Run runs the program with a client, in a process of its own, which reads in and prints out, both as JSON. Its standard input
// ends when the process does, or this one.
func (p *Program) Run(ctx context.Context, c Client, in, out any, args ...string) error {
	cmd := exec.CommandContext(ctx, p.Paths[c], args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = json.NewEncoder(stdin).Encode(in)
	}
	if err != nil {
		return err
	}
	printed, err := cmd.Output()
	switch cause := context.Cause(ctx); {
	case err != nil && cause != nil: // for which the process was ended
		return fmt.Errorf("%w: %s", cause, strings.TrimSpace(stderr.String()))
	case err != nil:
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return json.Unmarshal(printed, out)
}

// Behave runs behaviours of ./behaviours/program on a site with a client, in this order.
func (p *Program) Behave(ctx context.Context, c Client, s site.Site, names ...string) (o site.Outcome, err error) {
	err = p.Run(ctx, c, s, &o, names...)
	return o, err
}
