package kubernetes

import (
	"errors"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quorate/quorate/internal/grpctest"
)

func TestExplain(t *testing.T) {
	resource := schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
	service := serviceKey{namespace: "shop", name: "users"}
	for want, err := range map[string]error{
		`no permission to list endpointslices.discovery.k8s.io for service "users" in namespace "shop": grant the verb "list"`: apierrors.NewForbidden(resource, "", errors.New("why")),
		"does not accept the credentials":        apierrors.NewUnauthorized("Unauthorized"),
		"not an API server, or one before":       apierrors.NewGenericServerResponse(404, "list", resource, "", "", 0, true),
		"cannot list endpointslices for service": errors.New("connection refused"),
	} {
		got := explain(err, "list", service)
		assert.ErrorContains(t, got, want)
		assert.ErrorIs(t, got, err)
	}
}

// What follows from an error of a request.
func TestErrors(t *testing.T) {
	tooLarge := apierrors.NewTimeoutError("Too large resource version: 9, current: 1", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	gone := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 410, Reason: metav1.StatusReasonGone}}
	for name, c := range map[string]struct {
		err                           error
		expired, refused, unreachable bool
		after                         time.Duration
	}{
		"410 Expired":        {err: apierrors.NewResourceExpired("too old"), expired: true, refused: true},
		"410 Gone":           {err: gone, expired: true, refused: true},
		"too new":            {err: tooLarge, expired: true, after: time.Second},
		"504":                {err: apierrors.NewTimeoutError("timeout", 1), after: time.Second},
		"403":                {err: apierrors.NewForbidden(schema.GroupResource{}, "", nil), refused: true},
		"429":                {err: apierrors.NewTooManyRequests("wait", 3), refused: true, after: 3 * time.Second},
		"429, for an hour":   {err: apierrors.NewTooManyRequests("wait", 3600), refused: true, after: 30 * time.Second},
		"401":                {err: apierrors.NewUnauthorized("")},                     // a new connection may carry a new token
		"500":                {err: apierrors.NewInternalError(errors.New("too old"))}, // another server may be better
		"connection refused": {err: &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, unreachable: true},
		"connection reset":   {err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}},
	} {
		assert.Equal(t, c.expired, expired(c.err), name)
		assert.Equal(t, c.refused, refused(c.err), name)
		assert.Equal(t, c.unreachable, unreachable(c.err), name)
		assert.Equal(t, c.after, retryAfter(c.err), name)
	}
}

// recorded has the lines of this package in gRPC's log.
var recorded = grpctest.NewLog("kubernetes-resolver")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// since returns a function that returns the later lines about a text.
func since(text string) func() []string {
	before := len(recorded.About(text))
	return func() []string { return recorded.About(text)[before:] }
}

func TestOutageIsTwoLines(t *testing.T) {
	lines, warnings := since(`"outage"`), len(recorded.Warnings(`"outage"`))
	server := startServer(t, slice("outage", "a", 80, "10.0.0.1"))
	c := open(t, server, "kubernetes:///outage.shop")
	c.AwaitCount(t, 1)
	server.Deny()
	server.EndWatches()
	require.NoError(t, server.Wait(grpctest.Within(t, testTimeout), "watch", 6))
	server.Allow()
	update(t, server, slice("outage", "a", 80, "10.0.0.2"))
	c.AwaitAddresses(t, "10.0.0.2:80")
	require.Len(t, lines(), 2)
	assert.Contains(t, lines()[0], "no permission to watch")
	assert.Contains(t, lines()[1], "is followed again")
	assert.Len(t, recorded.Warnings(`"outage"`), warnings+1)

	server.EndWatches()
	update(t, server, slice("outage", "a", 80, "10.0.0.3"))
	c.AwaitAddresses(t, "10.0.0.3:80")
	assert.Len(t, lines(), 2, "the end of a watch is not an outage")
}

func TestWhatCallsDoNotShowIsLogged(t *testing.T) {
	empty := since(`service "logged" in namespace "shop" has no endpoints`)
	filled := since(`service "logged" in namespace "shop" has endpoints`)
	doubted := since(`the target asks for port 8080 of service "logged" in namespace "shop", and its pods have grpc (80)`)
	server := startServer(t, slice("logged", "a", 80))
	c := open(t, server, "kubernetes:///logged.shop:8080")
	c.AwaitCount(t, 0)
	c.AwaitError(t, 0, "has no endpoints")
	update(t, server, slice("logged", "a", 80, "10.0.0.1"))
	c.AwaitAddresses(t, "10.0.0.1:8080")
	update(t, server, slice("logged", "a", 80, "10.0.0.1", "10.0.0.2"))
	c.AwaitCount(t, 2)
	assert.Len(t, empty(), 1)
	assert.Len(t, filled(), 1)
	assert.Len(t, doubted(), 1)
}
