package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// childProgram is argument 0 of a process of clients.
const childProgram = "quorate-bench-fleet"

// childMain turns the process into one of clients if a fleet started it as one, and
// then does not return. main and TestMain call it after lab.Main.
func childMain() {
	if len(os.Args) == 0 || os.Args[0] != childProgram {
		return
	}
	signal.Ignore(os.Interrupt) // the parent ends its children
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve opens the clients of the job that it reads, and obeys orders until the input
// ends. The input ends with the parent, however that ends.
func serve(in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	var j job
	if err := decoder.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	g, err := openGroup(context.Background(), j)
	defer g.close()
	if err != nil {
		return encoder.Encode(state{Error: err.Error()})
	}
	if err := encoder.Encode(g.obey(order{})); err != nil {
		return err
	}
	for {
		var o order
		switch err := decoder.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read an order: %w", err)
		}
		if err := encoder.Encode(g.obey(o)); err != nil {
			return err
		}
	}
}
