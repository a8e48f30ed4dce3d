package clientv3_test

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFunctionsOfAnOperation bounds how many functions of this module an operation enters that has been
// executed before. The official client enters 17 of its own for a get, 12 for a put, 10 for an event.
func TestFunctionsOfAnOperation(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program with counters")
	}
	dir := t.TempDir()
	const module = "github.com/quorate/quorate/"
	out, err := exec.Command("go", "run", "-cover", "-covermode=atomic", "-coverpkg="+module+"...", "./testdata/ways", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, bound := range map[string]int{"get": 90, "put": 92, "event": 35} {
		rounds, err := filepath.Glob(filepath.Join(dir, name, "*"))
		require.NoError(t, err)
		require.NotEmpty(t, rounds)
		times := make(map[string]int)
		for _, round := range rounds {
			out, err := exec.Command("go", "tool", "covdata", "func", "-i="+round).Output()
			require.NoError(t, err)
			for line := range strings.Lines(string(out)) {
				f := strings.Fields(strings.TrimPrefix(line, module))
				if len(f) == 3 && f[0] != "total" && f[2] != "0.0%" && !strings.Contains(f[0], "fakeetcd") && !strings.HasPrefix(f[0], "clientv3/testdata") {
					times[f[0]+" "+f[1]]++
				}
			}
		}
		maps.DeleteFunc(times, func(_ string, n int) bool { return n < len(rounds) }) // the work of a timer
		entered := slices.Sorted(maps.Keys(times))
		t.Logf("%s enters %d functions:\n%s", name, len(entered), strings.Join(entered, "\n"))
		assert.NotEmpty(t, entered, name)
		assert.LessOrEqual(t, len(entered), bound, name)
	}
}
