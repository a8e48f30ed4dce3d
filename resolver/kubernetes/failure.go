package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// errEnded is the regular end of a watch: the server ends each after some time.
	errEnded = errors.New("the API server ended the watch")
	// errNoWatchList means that the server does not stream lists.
	errNoWatchList = errors.New("the API server does not stream lists")
	// errIncomplete means that a streamed list ended early.
	errIncomplete = errors.New("the watch ended before the list was complete")
	// errSilent means that a watch delivered nothing, not even bookmarks.
	errSilent = errors.New("the API server sent nothing for too long")
	// errNoAnswer means that a request was not answered.
	errNoAnswer = errors.New("the API server did not answer in time")
)

// expired reports whether the server cannot serve a resource version: it is older than the
// history, or newer than all of it, as after the restoration of a backup.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// code returns the HTTP status of an answer, 0 if there was none.
func code(err error) int {
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		return int(api.Status().Code)
	}
	return 0
}

// refused reports whether the server refused the request. Another connection does not change
// that, except for a refused token; after errors of its own (5xx) another connection may reach
// another server.
func refused(err error) bool {
	c := code(err)
	return c >= 400 && c < 500 && c != http.StatusUnauthorized
}

// unreachable reports whether no connection could be made.
func unreachable(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// retryAfter returns the server's Retry-After, at most half a minute.
func retryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, 30*time.Second)
}

// explain returns the error for callers: the request that failed, the service, the cause, and
// what to do about it. verb is the verb of the request.
func explain(err error, verb string, service serviceKey) error {
	switch code(err) {
	case http.StatusForbidden:
		why := ""
		if verb == "list" {
			why = ", because the API server does not stream lists, or not in time"
		}
		return fmt.Errorf(`kubernetes: no permission to %s endpointslices.discovery.k8s.io for %v: grant the verb %q on apiGroup "discovery.k8s.io", resource "endpointslices", by a Role in namespace %q%s: %w`,
			verb, service, verb, service.namespace, why, err)
	case http.StatusUnauthorized:
		return fmt.Errorf("kubernetes: the API server does not accept the credentials with which to %s endpointslices for %v: the token or certificate is missing, expired or of another cluster: %w",
			verb, service, err)
	case http.StatusNotFound:
		return fmt.Errorf("kubernetes: cannot %s endpointslices for %v: this is not an API server, or one before Kubernetes 1.21, which has no discovery.k8s.io/v1: %w",
			verb, service, err)
	}
	return fmt.Errorf("kubernetes: cannot %s endpointslices for %v: %w", verb, service, err)
}

// cause returns why this package canceled a request, or else err.
func cause(ctx context.Context, err error) error {
	if own := context.Cause(ctx); own != nil {
		return own
	}
	return err
}

const (
	// firstPause is the pause after the second failure in a row; after the first there is none.
	firstPause = 100 * time.Millisecond
	growth     = 1.6
	// jitter is large, so that clients which lose an API server at the same moment do not return
	// at the same moment.
	jitter = 0.5
	// longestUnreachable bounds the pauses while no connection can be made: such attempts cost the
	// API server nothing, and a restarted one is noticed soon.
	longestUnreachable = time.Second
)

// backoff counts failures and computes the pause after each.
type backoff struct {
	failures int
	next     time.Duration
}

func (b *backoff) reset() { b.failures, b.next = 0, 0 }

// pause counts a failure and returns the pause before the next attempt. It never exceeds longest,
// and later pauses grow from at most longest.
func (b *backoff) pause(longest time.Duration) time.Duration {
	b.failures++
	if b.failures == 1 {
		return 0
	}
	b.next = min(cmp.Or(time.Duration(float64(b.next)*growth), firstPause), longest)
	return time.Duration(float64(b.next) * (1 - jitter*rand.Float64()))
}
