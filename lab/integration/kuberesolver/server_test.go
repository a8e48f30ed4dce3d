package kuberesolver_test

import (
	"context"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"
)

// server is an API server that the cases run against.
type server interface {
	// admit makes a namespace with a service account that may do there what the
	// resolver's manifest allows, and returns the configuration of a client that reads
	// its token from a file.
	admit(t *testing.T, namespace string) *rest.Config
	// admitEverywhere does so with the manifest for all namespaces.
	admitEverywhere(t *testing.T) *rest.Config

	// put creates a slice or changes it to what is given, in one request.
	put(ctx context.Context, slice *discoveryv1.EndpointSlice) error
	remove(ctx context.Context, namespace, name string) error

	// kill ends the server as a crash does, restart starts it again.
	kill() error
	restart(ctx context.Context) error
	// stop freezes the server, resume wakes it.
	stop() error
	resume() error
	// hangUp resets the connections of clients.
	hangUp()
	// shortenWatches has the server end every watch within seconds, from now on.
	shortenWatches(ctx context.Context) error
	// forget has a server that was killed know nothing of its history up to then when it
	// is restarted.
	forget(ctx context.Context) error

	// revoke takes away the client's role and grant gives it back; both return when
	// that is in force.
	revoke(t *testing.T, namespace string)
	grant(t *testing.T, namespace string)
	// rotate makes a new token and returns when the old one is refused; publish writes
	// the new one to the client's file.
	rotate(t *testing.T, namespace string) (publish func())
}
