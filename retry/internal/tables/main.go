// Command tables writes the tables of package retry for users of other languages:
// error-tables.md, which is page.md.tmpl filled with them, and error-vectors.json, cases by which an
// implementation tests itself.
//
// Usage: tables directory
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/quorate/quorate/retry"
)

// files has what renders each file.
var files = map[string]func() ([]byte, error){"error-tables.md": page, "error-vectors.json": vectors}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tables directory")
		os.Exit(2)
	}
	for name, render := range files {
		text, err := render()
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name), text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "tables:", err)
			os.Exit(1)
		}
	}
}

//go:embed page.md.tmpl
var pageTemplate string

func page() ([]byte, error) {
	tmpl, err := template.New("page").Funcs(template.FuncMap{"cell": cell, "method": method}).Parse(pageTemplate)
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
