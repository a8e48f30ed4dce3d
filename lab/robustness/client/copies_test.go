package client_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the copies")

// overOfficial makes a file of package quorate one of package official.
var overOfficial = strings.NewReplacer(
	"package quorate\n", "// Code generated from package quorate by its copies' test. DO NOT EDIT.\n\npackage official\n",
	`"github.com/quorate/quorate/clientv3"`, `clientv3 "go.etcd.io/etcd/client/v3"`,
	`"github.com/quorate/quorate/clientv3/concurrency"`, `"go.etcd.io/etcd/client/v3/concurrency"`,
)

// TestCopies compares the files of package official that are those of package quorate over the official client.
func TestCopies(t *testing.T) {
	for _, name := range []string{"kv.go", "store.go", "watch.go", "lease.go", "locks.go"} {
		source, err := os.ReadFile("quorate/" + name)
		require.NoError(t, err)
		want := overOfficial.Replace(string(source))
		want = strings.Replace(want, "\t\"github.com/quorate/quorate/lab/", "\n\t\"github.com/quorate/quorate/lab/", 1) // a group of its own
		if *update {
			require.NoError(t, os.WriteFile("official/"+name, []byte(want), 0o600))
		}
		got, err := os.ReadFile("official/" + name)
		require.NoError(t, err)
		assert.Equal(t, want, string(got), "%s: run go generate ./lab/robustness/client", name)
	}
}
