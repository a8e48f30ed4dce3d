package snapshot

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDiskFull writes to a device that is always full.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	p := &part{target: "etcd.db", file: full}
	_, err = p.fill(strings.NewReader(strings.Repeat("v", 1<<20)))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.EqualError(t, err, "write /dev/full: no space left on device")
}
