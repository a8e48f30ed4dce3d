//go:build race

package balancer_test

import "runtime"

// The race detector of Go 1.26 fails (CHECK failed: tsan_rtl.cpp) when two processors run timers of one bubble of
// testing/synctest: https://go.dev/issue/78156.
func init() { runtime.GOMAXPROCS(1) }
