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

func TestExpired(t *testing.T) {
	tooLarge := apierrors.NewTimeoutError("Too large resource version: 9, current: 1", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	gone := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 410, Reason: metav1.StatusReasonGone}}
	for _, err := range []error{apierrors.NewResourceExpired("too old"), gone, tooLarge} {
		assert.True(t, expired(err), err)
	}
	assert.False(t, expired(apierrors.NewTimeoutError("timeout", 1)))
	assert.False(t, expired(errors.New("too old")))
}

func TestRefused(t *testing.T) {
	assert.True(t, refused(apierrors.NewForbidden(schema.GroupResource{}, "", nil)))
	assert.True(t, refused(apierrors.NewTooManyRequests("wait", 3)))
	assert.False(t, refused(apierrors.NewUnauthorized("")), "a new connection may carry a new token")
	assert.False(t, refused(apierrors.NewInternalError(errors.New("etcd"))), "another server may be better")
	assert.False(t, refused(errors.New("reset")))
}

func TestUnreachable(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	assert.True(t, unreachable(&url.Error{Op: "Get", Err: dial}))
	assert.False(t, unreachable(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), "there was a connection")
	assert.False(t, unreachable(apierrors.NewForbidden(schema.GroupResource{}, "", nil)))
}

func TestRetryAfter(t *testing.T) {
	assert.Equal(t, 3*time.Second, retryAfter(apierrors.NewTooManyRequests("wait", 3)))
	assert.Equal(t, 30*time.Second, retryAfter(apierrors.NewTooManyRequests("wait", 3600)))
	assert.Zero(t, retryAfter(errors.New("reset")))
}
