package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Serve runs the job that it reads, and writes its result. The case ends with
// the input, which ends with the parent.
func Serve(in io.Reader, out io.Writer, all []Case) error {
	decoder := json.NewDecoder(in)
	var j Job
	if err := decoder.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	w := &requests{encoder: json.NewEncoder(out), answers: make(chan Answer)}
	go func() { cancel(w.receive(ctx, decoder)) }()
	sample, err := j.run(ctx, all, w)
	if err != nil {
		return w.send(Message{Error: err.Error()})
	}
	return w.send(Message{Sample: sample})
}

func (j Job) run(ctx context.Context, all []Case, control Control) (Sample, error) {
	for _, c := range all {
		if c.Name == j.Case {
			return c.Run(ctx, Site{
				Endpoints: j.Endpoints, Size: j.Size, Short: j.Short, Revision: j.Revision, Control: control,
			})
		}
	}
	return nil, fmt.Errorf("unknown case %q", j.Case)
}

// requests is the Control of a case. It passes everything on.
type requests struct {
	encoder *json.Encoder
	answers chan Answer

	mu sync.Mutex // one request at a time
}

func (w *requests) Kill(ctx context.Context, address string) error {
	return w.ask(ctx, Request{Kill: address})
}

func (w *requests) Put(ctx context.Context, n int) error {
	return w.ask(ctx, Request{Put: n})
}

func (w *requests) ask(ctx context.Context, what Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.send(Message{Request: &what}); err != nil {
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

func (w *requests) send(m Message) error { return w.encoder.Encode(m) }

// receive passes answers on until there are no more, and returns why.
func (w *requests) receive(ctx context.Context, decoder *json.Decoder) error {
	for {
		var a Answer
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
