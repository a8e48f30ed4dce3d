package kubernetes

import (
	"errors"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
