// Package etcd34 finds the oldest server that tests run against.
package etcd34

import (
	"os"
	"testing"
)

// Path returns the path of an etcd 3.4 executable: the one that QUORATE_ETCD34
// names, or Debian's. Without one it skips the test, and fails it if
// QUORATE_REQUIRE_ETCD34 is 1.
func Path(t testing.TB) string {
	t.Helper()
	path := os.Getenv("QUORATE_ETCD34")
	if path == "" {
		path = "/usr/bin/etcd"
	}
	_, err := os.Stat(path)
	if err == nil {
		return path
	}
	const advice = "no etcd 3.4 server: %v. Install one (Debian 12: apt-get install etcd-server) or name its path in QUORATE_ETCD34"
	if os.Getenv("QUORATE_REQUIRE_ETCD34") == "1" {
		t.Fatalf(advice, err)
	}
	t.Skipf(advice, err)
	return ""
}
