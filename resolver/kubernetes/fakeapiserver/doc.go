// Package fakeapiserver is a small Kubernetes API server in memory, for tests of what
// watches EndpointSlices.
//
// It serves lists and watches of endpointslices of discovery.k8s.io/v1 and nothing else, over HTTPS
// and HTTP/2, with the errors, resource versions, selectors, bookmarks and streamed lists of the
// real one, so that client-go works with it:
//
//	server, err := fakeapiserver.Start()
//	…
//	defer server.Close()
//	builder, err := kubernetes.NewBuilder(kubernetes.Config{REST: server.RESTConfig()})
//
// # Objects
//
// Create, Update and Delete change EndpointSlices; clients can only read and watch them. Nothing
// is validated, and no controller interferes.
//
// # Faults
//
// EndWatches and SetWatchDuration end watches as a server does that has served them for long
// enough. Compact forgets history, ExpireWatches ends open watches as if theirs were gone: both
// are status 410. Deny answers verbs with 403, SetTokens all other tokens with 401. Hang holds
// every connection, old and new, without a byte, like a stopped process or a host that is
// gone; BreakConnections resets them; Stop refuses new ones as well, until Restart. RotateCA
// changes the certificate that later connections see. SetWatchList makes it an older server.
//
// # Requests
//
// Requests lists every request, Count counts those of a verb, Wait waits for them. Watches and
// Connections count what is open.
//
// # Where it differs from kube-apiserver
//
// Resource versions begin at 1 and count the changes of EndpointSlices. Lists are never divided,
// and watches end only by a fault. Answers are in JSON. There is no admission, no discovery
// document, no OpenAPI. Bookmarks come exactly once a minute, unless SetBookmarkInterval changes that.
package fakeapiserver
