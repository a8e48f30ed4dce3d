package contract_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/contract"
	"github.com/quorate/quorate/lab/contract/quorate"
	"github.com/quorate/quorate/lab/internal/etcd34"
)

// TestStreamsOfOldServers compares Quorate with itself: what it streams from etcd 3.4, page by page, is what it streams
// from etcd 3.7. What cannot be read by pages is refused on both.
func TestStreamsOfOldServers(t *testing.T) {
	t.Parallel()
	old := etcd34.Path(t)
	var stream []contract.Scenario
	for _, s := range quorate.Single() {
		if s.Name == "stream" {
			stream = append(stream, s)
		}
	}
	require.Len(t, stream, 1)
	want, err := playOn(lab.Config{Members: 1})(t.Context(), stream)
	require.NoError(t, err)
	got, err := playOn(lab.Config{Members: 1, Binary: old})(t.Context(), stream)
	require.NoError(t, err)

	require.Equal(t, steps(want), steps(got))
	unordered := []string{"sort by key, descending", "sort by value", "invalid sort", "mod revision", "create revision"}
	for i := range want {
		if slices.ContainsFunc(unordered, func(part string) bool { return strings.HasSuffix(want[i].Step, part) }) {
			assert.NotEmpty(t, want[i].Error, "%s on etcd 3.7", want[i].Step)
			assert.Contains(t, got[i].Error, "Unimplemented", "%s on etcd 3.4", want[i].Step)
			continue
		}
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("%s differs (-etcd 3.7 +etcd 3.4):\n%s", want[i].Step, diff)
		}
	}
}
