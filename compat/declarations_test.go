package compat_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/compat/internal/api"
	"github.com/quorate/quorate/compat/internal/source"
)

var update = flag.Bool("update", false, "write the files of TestPublicAPI, and what is generated")

// publicModules are the folders of the modules that programs import packages of, by the file below api in the root that
// lists what the packages export.
var publicModules = map[string]string{
	"quorate.txt":             ".",
	"resolver-kubernetes.txt": "resolver/kubernetes",
	"adapters-gozero.txt":     "adapters/gozero",
	"adapters-kratos.txt":     "adapters/kratos",
	"observe-otel.txt":        "observe/otel",
	"observe-prometheus.txt":  "observe/prometheus",
}

// TestPublicAPI compares what the modules export with the files below api in the root. A change of the API is a change of
// these files:
//
//	go test ./compat -run TestPublicAPI -update
func TestPublicAPI(t *testing.T) {
	tree := tree(t)
	for name, folder := range publicModules {
		var text strings.Builder
		for _, pkg := range tree.Public(folder) {
			path := strings.TrimPrefix(strings.TrimPrefix(pkg.Path(), source.Module), "/")
			for _, line := range api.Declarations(pkg) {
				text.WriteString(strings.TrimPrefix(path+": ", ": ") + line + "\n")
			}
		}
		file := filepath.Join(tree.Root, "api", name)
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
		}
		listed, err := os.ReadFile(file)
		require.NoError(t, err)
		removed, added := difference(string(listed), text.String())
		assert.Empty(t, removed, "api/%s has lines that are true no more: programs that use them break. If that is meant, run %s", name, updateCommand)
		assert.Empty(t, added, "api/%s lacks these lines: run %s", name, updateCommand)
	}
}

const updateCommand = "go test ./compat -run TestPublicAPI -update"

// difference returns the lines that only the old text has, and those that only the new one has.
func difference(before, after string) (removed, added []string) {
	return without(before, after), without(after, before)
}

func without(text, other string) (lines []string) {
	has := make(map[string]bool)
	for line := range strings.Lines(other) {
		has[line] = true
	}
	for line := range strings.Lines(text) {
		if !has[line] {
			lines = append(lines, line)
		}
	}
	return lines
}
