package comparison_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/report/comparison"
	"github.com/quorate/quorate/lab/report/comparison/sample"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update to write it")
	assert.Empty(t, cmp.Diff(string(want), string(got)))
}

func TestTable(t *testing.T) {
	early := sample.Document()
	early.Interrupted, early.Clients = true, early.Clients[:1]
	for name, d := range map[string]comparison.Document{
		"table.txt": sample.Document(), "table_early.txt": early,
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, comparison.Table(&b, d))
			golden(t, name, b.Bytes())
			for line := range strings.Lines(b.String()) {
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
			}
		})
	}
}

func TestJSONHoldsTheWholeDocument(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, comparison.JSON(&b, sample.Document()))
	var back comparison.Document
	dec := json.NewDecoder(&b)
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&back))
	for i := range back.Clients {
		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, back.Clients[i].Report))
		back.Clients[i].Report = compact.Bytes()
	}
	assert.Empty(t, cmp.Diff(sample.Document(), back))
}

// TestSlicesAreNeverNull holds the promise of the document's comment: programs and the
// page's script need not look.
func TestSlicesAreNeverNull(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, comparison.JSON(&b, sample.Document()))
	assert.NotContains(t, b.String(), "null")
}
