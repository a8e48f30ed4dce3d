package etcdserver_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/server/v3/auth"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/raft/v3"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/retry"
)

// unnamed are the errors of the released server that reach a client by their text alone: rpctypes has no variable for
// them, and so they arrive with code Unknown.
var unnamed = []error{
	raft.ErrProposalDropped,
	raft.ErrStopped,
	lease.ErrNotPrimary,
	etcderrors.ErrTimeoutLeaderTransfer,
	etcderrors.ErrUnknownMethod,
	auth.ErrPermissionDenied,
	auth.ErrUserEmpty,
	auth.ErrInvalidAuthToken,
	auth.ErrAuthOldRevision,
	auth.ErrNoPasswordUser,
	errors.New("bcrypt: password length exceeds 72 bytes"), // golang.org/x/crypto's
}

// notSupported are the methods that kine calls "not supported", of leases and Mutating ones (pkg/server/{lease,cluster,maintenance}.go).
var notSupported = []string{
	"lease keep alive", "lease revoke", "lease time to live", "lease leases",
	"member add", "member remove", "member update", "member promote", "defragment", "downgrade",
}

// TestUnnamedServerErrors compares the texts in retry.ServerErrors that belong to no variable of rpctypes with the
// server's own errors, in both directions.
func TestUnnamedServerErrors(t *testing.T) {
	t.Parallel()
	var released []string
	for _, err := range unnamed {
		released = append(released, err.Error())
	}
	for _, what := range notSupported {
		released = append(released, what+" is not supported")
	}
	var listed []string
	for _, rule := range retry.ServerErrors() {
		if rule.Name == "" {
			listed = append(listed, rule.Message)
			want := codes.Unknown
			if rule.Message == "raft: stopped" {
				want = codes.Unavailable // another member serves
			}
			assert.Equal(t, want, rule.Code, rule.Message)
		}
	}
	assert.ElementsMatch(t, released, listed, "the server's errors, and those of retry.ServerErrors without a name")
}
