//go:build experiment

// Package kuberesolver_test runs the resolver of Kubernetes services against a real kube-apiserver, and beside kuberesolver. The
// cases check what a gRPC channel receives; the tests of resolver/kubernetes do the same over package fakeapiserver.
//
// The variable QUORATE_KUBE_APISERVER names the server; without it the tests are skipped. `make kube-test` builds it and runs
// everything, with an API server that stands still for 100 seconds; `make kube-test-short`, which CI runs, leaves that and the
// comparison out.
package kuberesolver_test

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/labtest"
)

const (
	// testTimeout bounds every wait for what must happen; a passing test waits a small
	// part of it.
	testTimeout = time.Minute
	// pollInterval is the pause between two looks at what is waited for.
	pollInterval = 10 * time.Millisecond
)

// stopped is how long the API server stands still in the case about it.
var stopped = flag.Duration("stopped", 3*time.Second, "how long an API server stands still")

func TestMain(m *testing.M) {
	labtest.Verify(m,
		// kuberesolver's goroutine stays when its watch is closed while an event arrives; see
		// TestBesideKuberesolver.
		goleak.IgnoreAnyFunction("github.com/sercand/kuberesolver/v6.(*streamWatcher).receive"))
}

var within = grpctest.Within
