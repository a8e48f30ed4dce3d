// Package etcd34 finds the oldest server that tests run against.
package etcd34

import (
	"cmp"
	"fmt"
	"os"
)

// TB is the part of testing.TB that is needed here: programs find the server too, and do not have package testing.
type TB interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
}

// Find returns the path of an etcd 3.4 executable: the one that QUORATE_ETCD34
// names, or Debian's.
func Find() (string, error) {
	path := cmp.Or(os.Getenv("QUORATE_ETCD34"), "/usr/bin/etcd")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no etcd 3.4 server: %w. Install one (Debian 12: apt-get install etcd-server) or name its path in QUORATE_ETCD34", err)
	}
	return path, nil
}

// Path is Find for a test. Without an executable it skips the test, and fails it if
// QUORATE_REQUIRE_ETCD34 is 1.
func Path(t TB) string {
	t.Helper()
	path, err := Find()
	if err != nil && os.Getenv("QUORATE_REQUIRE_ETCD34") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	return path
}
