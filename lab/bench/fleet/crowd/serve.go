// Package crowd is the clients of one process of a fleet.
package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Serve opens the clients of the job that it reads, and obeys orders until the input
// ends. The input ends with the parent, however that ends.
func Serve(in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	var j Job
	if err := decoder.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	g, err := openGroup(context.Background(), j)
	defer g.close()
	if err != nil {
		return encoder.Encode(State{Error: err.Error()})
	}
	if err := encoder.Encode(g.obey(Order{})); err != nil {
		return err
	}
	for {
		var o Order
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
