package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/quorate/quorate/cmd/internal/cli"
)

// output is how a command prints its result: as a table, or as one object.
type output struct {
	json bool
}

func (o *output) register(fs *pflag.FlagSet) {
	fs.FuncP("write-out", "w", "`table` or json (default table)", func(format string) error {
		o.json = format == "json"
		if !o.json && format != "table" {
			return errors.New("it must be table or json")
		}
		return nil
	})
	fs.BoolVar(&o.json, "json", false, "the same as --write-out json")
}

func (o *output) print(out io.Writer, result interface{ Text() string }) error {
	text, err := []byte(cli.Clean(result.Text())), error(nil)
	if o.json {
		text, err = json.MarshalIndent(result, "", "  ")
		text = append(cli.CleanJSON(text), '\n')
	}
	if err == nil {
		_, err = out.Write(text)
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}
