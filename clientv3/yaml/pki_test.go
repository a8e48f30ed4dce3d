package yaml_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/testpki"
)

// authority writes files.
type authority struct {
	*testpki.Authority
	modified time.Time // of the files that it writes
}

// newAuthority makes the authority of a number. What the second writes is newer than
// what the first did, even to a file system that knows only seconds.
func newAuthority(t *testing.T, number int) *authority {
	t.Helper()
	return &authority{testpki.New(t, fmt.Sprint("authority ", number)), time.Now().Add(time.Duration(number) * time.Second)}
}

// write writes the authority, and a certificate for a client with its key, to the
// directory.
func (a *authority) write(t *testing.T, dir, client string) {
	t.Helper()
	certificate, key := testpki.PairPEM(t, a.Issue(t, client))
	for name, content := range map[string][]byte{"ca.crt": a.PEM(), "client.crt": certificate, "client.key": key} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		require.NoError(t, os.Chtimes(path, a.modified, a.modified))
	}
}
