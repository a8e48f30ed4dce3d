package settle_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/settle"
	"github.com/quorate/quorate/retry"
)

// scripted is a transaction of which each attempt ends with the next error.
type scripted struct {
	clientv3.Txn
	ends []error
	sent int
}

var answer = &clientv3.TxnResponse{Succeeded: true}

func (s *scripted) Commit() (*clientv3.TxnResponse, error) {
	err := s.ends[s.sent]
	s.sent++
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func TestCommit(t *testing.T) {
	lost := &retry.UnknownOutcomeError{Method: "/etcdserverpb.KV/Txn", Err: errors.New("connection reset")}
	executed := &retry.ResponseLostError{Revision: 5, Err: rpctypes.ErrCompacted}
	refused, full := rpctypes.ErrPermissionDenied, rpctypes.ErrNoSpace
	tests := map[string]struct {
		ends        []error
		sent        int
		unsure, err error
	}{
		"answered":                     {[]error{nil}, 1, nil, nil},
		"lost, then answered":          {[]error{lost, nil}, 2, lost, nil},
		"lost twice, then answered":    {[]error{lost, lost, nil}, 3, lost, nil},
		"never answered":               {[]error{lost, lost, lost}, 3, lost, lost},
		"refused":                      {[]error{refused}, 1, nil, refused},
		"lost, then refused":           {[]error{lost, refused}, 2, lost, refused},
		"executed, its response lost":  {[]error{executed}, 1, executed, executed},
		"the store is full":            {[]error{full, nil}, 1, full, full},
		"lost, then full":              {[]error{lost, full, nil}, 2, full, full},
		"timed out on the server":      {[]error{rpctypes.ErrTimeout, nil}, 2, rpctypes.ErrTimeout, nil},
		"refused without a leader":     {[]error{rpctypes.ErrNoLeader}, 1, nil, rpctypes.ErrNoLeader},
		"the caller's deadline passes": {[]error{context.DeadlineExceeded, nil}, 2, context.DeadlineExceeded, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			txn := &scripted{ends: tt.ends}
			resp, unsure, err := settle.Commit(t.Context(), func() clientv3.Txn { return txn })
			require.Equal(t, tt.err, err)
			require.Equal(t, tt.unsure, unsure)
			require.Equal(t, tt.err == nil, resp == answer)
			require.Equal(t, tt.sent, txn.sent)
		})
	}
}

func TestCommitWhenTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	txn := &scripted{ends: []error{context.Canceled}}
	_, unsure, err := settle.Commit(ctx, func() clientv3.Txn {
		cancel()
		return txn
	})
	require.Equal(t, context.Canceled, err)
	require.Equal(t, context.Canceled, unsure, "it may have been carried out")
	require.Equal(t, 1, txn.sent)

	_, unsure, err = settle.Commit(ctx, func() clientv3.Txn { return txn })
	require.Equal(t, context.Canceled, err)
	require.NoError(t, unsure)
	require.Equal(t, 1, txn.sent, "nothing is sent")
}
