// Command errorspage writes docs/error-tables.md: page.md.tmpl, filled with the tables of
// package retry.
//
// Usage: errorspage file
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/quorate/quorate/retry"
)

//go:embed page.md.tmpl
var page string

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: errorspage file")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "errorspage:", err)
		os.Exit(1)
	}
}

func write(file string) error {
	text, err := render()
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func render() ([]byte, error) {
	tmpl, err := template.New("page").Funcs(template.FuncMap{"cell": cell, "method": method}).Parse(page)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = tmpl.Execute(&out, map[string]any{
		"Decisions":    retry.Decisions(),
		"ServerErrors": retry.ServerErrors(),
		"LocalErrors":  retry.LocalErrors(),
		"Codes":        retry.Codes(),
		"Methods":      retry.Methods(),
		"Default":      retry.DefaultConfig(),
	})
	return out.Bytes(), err
}

// cell formats a value for a table cell.
func cell(v any) string {
	return strings.ReplaceAll(fmt.Sprint(v), "|", `\|`)
}

// method shortens "/etcdserverpb.KV/Put" to "KV.Put".
func method(full string) string {
	short := strings.TrimPrefix(full, "/etcdserverpb.")
	return strings.Replace(short, "/", ".", 1)
}
