// Package programs compiles the program that is measured with both clients.
package programs

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/quorate/quorate/lab/servers"
)

// Set has the path of the program by the name of its client.
type Set map[string]string

// Build compiles the program with both clients. Remove removes it.
func Build(ctx context.Context) (set Set, remove func(), err error) {
	dir, err := os.MkdirTemp("", "quorate-bench-")
	if err != nil {
		return nil, nil, err
	}
	set, remove = Set{}, func() { _ = os.RemoveAll(dir) }
	for _, client := range servers.Clients {
		path, buildErr := client.Build(ctx, dir, "./bench/program")
		set[string(client)], err = path, errors.Join(err, buildErr)
	}
	if err != nil {
		remove()
	}
	return set, remove, err
}

// tailLines is how many lines of a process's standard error are part of an error.
const tailLines = 20

// Tail returns the last lines of what a process has written to its standard error, in a form to add to an error.
func Tail(log string) string {
	log = strings.TrimSpace(log)
	if log == "" {
		return ""
	}
	lines := strings.Split(log, "\n")
	return "\n" + strings.Join(lines[max(len(lines)-tailLines, 0):], "\n")
}
