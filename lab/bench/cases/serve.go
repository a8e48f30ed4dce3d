package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/servers/site"
)

// Job is what the process of a client reads from its standard input. It writes a sample to its standard output, or
// fails.
type Job struct {
	Case string
	Site
}

// Serve runs the job that it reads, and writes its sample. The case ends with the input, which ends with the parent.
func Serve(in io.Reader, out io.Writer, all []Case) error {
	decoder := json.NewDecoder(in)
	var j Job
	if err := decoder.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	i := slices.IndexFunc(all, func(c Case) bool { return c.Name == j.Case })
	if i < 0 {
		return fmt.Errorf("unknown case %q", j.Case)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return fatal.Catch(func() {
		sample := all[i].Run(ctx, j.Site)
		fatal.If(json.NewEncoder(out).Encode(sample))
	})
}

// Control acts on the cluster, through this URL of the parent's process.
type Control string

// The acts that a Control asks for. Each is followed by a slash and what it is about.
const (
	KillAct = "kill"
	PutAct  = "put"
)

// Kill ends the member at a host:port with SIGKILL. If it leads, another member is made the leader before.
func (c Control) Kill(ctx context.Context, address string) error { return c.do(ctx, KillAct, address) }

// Put makes n puts to keys under Prefix.
func (c Control) Put(ctx context.Context, n int) error { return c.do(ctx, PutAct, strconv.Itoa(n)) }

func (c Control) do(ctx context.Context, act, about string) error {
	return site.Site{Control: string(c)}.Do(ctx, site.Act(act+"/"+about))
}
