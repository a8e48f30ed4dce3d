package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/quorate/quorate/lab/internal/fatal"
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

// Control does things to the cluster, in the parent's process, at this URL.
type Control string

// The acts of a Control, which are fields of the forms that it posts.
const (
	KillAct = "kill"
	PutAct  = "put"
)

// Kill ends the member at a host:port with SIGKILL. If it leads, another member is made the leader before.
func (c Control) Kill(ctx context.Context, address string) error {
	return c.post(ctx, url.Values{KillAct: {address}})
}

// Put makes n puts to keys under Prefix.
func (c Control) Put(ctx context.Context, n int) error {
	return c.post(ctx, url.Values{PutAct: {strconv.Itoa(n)}})
}

func (c Control) post(ctx context.Context, act url.Values) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, string(c)+"?"+act.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%v: %s", act, text)
	}
	return err
}
