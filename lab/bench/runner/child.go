package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/quorate/quorate/lab/bench/cases"
)

// childProgram is argument 0 of the process of a client.
const childProgram = "quorate-bench-client"

// Main turns the process into that of a client if a Runner started it as one, and
// then does not return. In every other process it returns at once. It must be
// called first in main or TestMain, after lab.Main.
func Main() {
	if len(os.Args) == 0 || os.Args[0] != childProgram {
		return
	}
	if err := serve(os.Stdin, os.Stdout, cases.All()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs the job that it reads, and writes what came of it. When nobody is left
// to read that, which the end of the input shows, the case is ended.
func serve(in io.Reader, out io.Writer, all []cases.Case) error {
	decoder := json.NewDecoder(in)
	var j job
	if err := decoder.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	w := &wishes{encoder: json.NewEncoder(out), answers: make(chan answer)}
	go func() { cancel(w.receive(ctx, decoder)) }()
	sample, err := j.run(ctx, all, w)
	if err != nil {
		return w.send(message{Error: err.Error()})
	}
	return w.send(message{Sample: sample})
}

func (j job) run(ctx context.Context, all []cases.Case, control cases.Control) (cases.Sample, error) {
	open, ok := clients[j.Client]
	if !ok {
		return nil, fmt.Errorf("unknown client %q", j.Client)
	}
	for _, c := range all {
		if c.Name == j.Case {
			return c.Run(ctx, cases.Site{
				Open: open, Endpoints: j.Endpoints, Size: j.Size, Short: j.Short, Revision: j.Revision, Control: control,
			})
		}
	}
	return nil, fmt.Errorf("unknown case %q", j.Case)
}

// wishes is the Control of a case. It passes everything on.
type wishes struct {
	encoder *json.Encoder
	answers chan answer

	mu sync.Mutex // one wish at a time
}

func (w *wishes) Kill(ctx context.Context, address string) error {
	return w.ask(ctx, wish{Kill: address})
}

func (w *wishes) Put(ctx context.Context, n int) error {
	return w.ask(ctx, wish{Put: n})
}

func (w *wishes) ask(ctx context.Context, what wish) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.send(message{Wish: &what}); err != nil {
		return err
	}
	select {
	case a := <-w.answers:
		if a.Error != "" {
			return errors.New(a.Error)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *wishes) send(m message) error { return w.encoder.Encode(m) }

// receive passes answers on until there are no more, and returns why.
func (w *wishes) receive(ctx context.Context, decoder *json.Decoder) error {
	for {
		var a answer
		if err := decoder.Decode(&a); err != nil {
			return fmt.Errorf("nobody waits for the result: %w", err)
		}
		select {
		case w.answers <- a:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
