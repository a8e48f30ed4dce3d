package recipe

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/settle"
)

// member is a session's key in a recipe.
type member struct {
	session *concurrency.Session
	*EphemeralKV
}

// join puts a unique key for the session below a prefix. If it fails there is no key.
func join(ctx context.Context, s *concurrency.Session, prefix string) (*member, error) {
	for {
		key := uniqueKey(prefix)
		resp, unsure, err := settle.Commit(ctx, func() clientv3.Txn {
			return s.Client().Txn(ctx).If(isFree(key)).
				Then(clientv3.OpPut(key, "", clientv3.WithLease(s.Lease()))).
				Else(clientv3.OpGet(key))
		})
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return nil, fmt.Errorf("recipe: %w: %w", concurrency.ErrSessionExpired, err)
		case err != nil:
			discard(s, key)
			return nil, err
		case resp.Succeeded:
			return newMember(s, key, resp.Header.Revision), nil
		}
		found := optxn.Key(resp, 0)
		if unsure != nil && found.GetLease() == int64(s.Lease()) { // this name is unique
			return newMember(s, key, found.CreateRevision), nil
		}
	}
}

func newMember(s *concurrency.Session, key string, rev int64) *member {
	return &member{s, &EphemeralKV{RemoteKV{client: s.Client(), key: key, rev: rev, lease: s.Lease()}}}
}

// exists compares the key with the one that was put.
func (m *member) exists() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(m.key), "=", m.rev)
}

// found reports whether the key was there when it was read.
func (m *member) found(kvs []*mvccpb.KeyValue) bool {
	return len(kvs) == 1 && kvs[0].CreateRevision == m.rev
}

// whilePresent runs work, which waits, while the key exists. When the key is lost, or
// cannot be watched, the context of work ends, and the error is the reason.
func (m *member) whilePresent(ctx context.Context, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		err := waitGone(ctx, m.session.Client(), &mvccpb.KeyValue{Key: []byte(m.key), CreateRevision: m.rev}, m.rev)
		if err == nil {
			err = lostKeyError(m.session, m.key)
		}
		cancel(err)
	}()
	err := causeOf(ctx, work(ctx))
	cancel(nil)
	<-watched
	return err
}

// whileSession runs work while the session lives. When the session is lost the
// context of work ends, and the error says so.
func whileSession(s *concurrency.Session, work func(ctx context.Context) error) error {
	if err := sessionError(s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(s.Client().Ctx())
	defer cancel(nil)
	defer context.AfterFunc(s.Ctx(), func() {
		if err := sessionError(s); err != nil {
			cancel(err)
		}
	})()
	return causeOf(ctx, work(ctx))
}

// causeOf returns the cause of ctx, if it was cancelled, in place of err.
func causeOf(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || errors.Is(ctx.Err(), cause) {
		return err
	}
	return cause
}
