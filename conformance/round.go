package main

import (
	"context"
	"io"
	"time"
)

// streams are where output goes: the result, what the go command says about
// itself, and the raw events.
type streams struct {
	stdout, stderr, log io.Writer
}

// round runs a selection once, prints its result, and reports whether all was well.
// An error says that it could not be run.
func (b build) round(ctx context.Context, opts options, to streams) (bool, error) {
	began := time.Now()
	t := newTable(to.stdout, opts.selection)
	t.head(b.String())
	c := newCollector()
	err := b.goTest(ctx, opts, to.stderr, func(line []byte) error {
		if _, err := to.log.Write(line); err != nil {
			return err
		}
		done, err := c.add(line)
		if done != nil {
			t.row(*done)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	for _, r := range c.rest() {
		t.row(r)
	}
	t.foot(time.Since(began))
	return t.ok, t.err
}
