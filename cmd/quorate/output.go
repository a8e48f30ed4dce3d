package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
)

// output is how a command prints its result: as a table, or as one object. It is the value of --write-out.
type output struct {
	json bool
}

func (o *output) register(fs *pflag.FlagSet) {
	fs.VarP(o, "write-out", "w", "table or json")
	fs.BoolVar(&o.json, "json", false, "the same as --write-out json")
}

// String returns the value.
func (o *output) String() string {
	if o.json {
		return "json"
	}
	return "table"
}

// Set takes a value.
func (o *output) Set(value string) error {
	if value != "table" && value != "json" {
		return errors.New("it must be table or json")
	}
	o.json = value == "json"
	return nil
}

// Type returns what the help calls the value.
func (*output) Type() string { return "format" }

func (o *output) print(out io.Writer, result interface{ Text() string }) error {
	text := []byte(nil)
	var err error
	if o.json {
		text, err = json.MarshalIndent(result, "", "  ")
		text = append(text, '\n')
	} else {
		text = []byte(result.Text())
	}
	if err == nil {
		_, err = out.Write(text)
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}
