package front_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "../../../docs/proxies.md"

// documentedConfig returns a configuration that the documentation shows, with replacements for what
// differs here: pairs of old and new texts, each of which must be there.
func documentedConfig(t *testing.T, name string, replacements ...string) string {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	text := string(content)
	for i := 0; i < len(replacements); i += 2 {
		require.Contains(t, text, replacements[i], "%s has changed", name)
		text = strings.ReplaceAll(text, replacements[i], replacements[i+1])
	}
	return text
}

// What the documentation shows is what runs here.
func TestTheDocumentationShowsWhatIsTested(t *testing.T) {
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	for name, language := range map[string]string{
		"grpc.conf": "nginx", "etcd.conf": "nginx", "members.conf": "nginx", "cluster.json": "json",
	} {
		assert.Contains(t, string(content), "```"+language+"\n"+documentedConfig(t, name)+"```\n", "%s differs from testdata/%s", page, name)
	}
}
