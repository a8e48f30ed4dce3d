// Package crowd is one client of a fleet, a process of its own.
package crowd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Serve opens the client of the job that it reads, and obeys orders until the input
// ends. The input ends with the parent, however that ends.
func Serve(in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	var j Job
	if err := decoder.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	c, err := open(j.Endpoints)
	if err != nil {
		return encoder.Encode(State{Error: err.Error()})
	}
	defer c.close()
	if err := encoder.Encode(c.obey(Order{})); err != nil {
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
		if err := encoder.Encode(c.obey(o)); err != nil {
			return err
		}
	}
}
