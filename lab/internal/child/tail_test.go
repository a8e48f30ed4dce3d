package child_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/internal/child"
)

func TestTail(t *testing.T) {
	const content = "first run\nsecond run\n"
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	for name, test := range map[string]struct {
		path    string
		from, n int64
		want    string
	}{
		"all":                      {path: path, n: 100, want: "first run\nsecond run"},
		"exactly all":              {path: path, n: int64(len(content)), want: "first run\nsecond run"},
		"the last bytes":           {path: path, n: 4, want: "run"},
		"from an offset":           {path: path, from: 10, n: 100, want: "second run"},
		"the last from an offset":  {path: path, from: 10, n: 4, want: "run"},
		"fewer than n from offset": {path: path, from: 17, n: 10, want: "run"},
		"from the end":             {path: path, from: int64(len(content)), n: 100},
		"from beyond the end":      {path: path, from: 1000, n: 100},
		"no file":                  {path: path + ".missing", n: 100},
		"a directory":              {path: filepath.Dir(path), n: 100},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, child.Tail(test.path, test.from, test.n))
		})
	}
}
