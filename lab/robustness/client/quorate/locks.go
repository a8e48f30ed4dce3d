package quorate

import (
	"context"
	"errors"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// Session implements [client.Locker].
func (c Client) Session(ctx context.Context, ttl int) (client.Session, error) {
	s, err := concurrency.NewSession(c.Client, concurrency.WithContext(ctx), concurrency.WithTTL(ttl))
	if err != nil {
		return nil, err
	}
	return Session{s}, nil
}

// Session is a [client.Session].
type Session struct {
	*concurrency.Session
}

// Lease implements [client.Session].
func (s Session) Lease() int64 { return int64(s.Session.Lease()) }

// Handle implements [client.Session].
func (s Session) Handle(style lockcheck.Style, name string) client.Handle {
	if style == lockcheck.Campaign {
		e := concurrency.NewElection(s.Session, name)
		return client.Handle{
			Acquire: func(ctx context.Context) error { return e.Campaign(ctx, "") }, Release: e.Resign,
			Guard: func() client.Guard { return NewGuard(s.Client(), ownerOf(e)) },
		}
	}
	m := concurrency.NewMutex(s.Session, name)
	handle := client.Handle{Acquire: m.Lock, Release: m.Unlock, Guard: func() client.Guard { return NewGuard(s.Client(), m.IsOwner()) }}
	if style == lockcheck.TryLock {
		handle.Acquire = func(ctx context.Context) error {
			err := m.TryLock(ctx)
			if errors.Is(err, concurrency.ErrLocked) {
				return client.ErrLocked
			}
			return err
		}
	}
	return handle
}

// NewGuard makes a guard of what an owner compares.
func NewGuard(c *clientv3.Client, owner clientv3.Cmp) client.Guard {
	compared := owner.GetCompare()
	return client.Guard{
		Claim: lockcheck.Claim{Key: string(compared.GetKey()), Revision: compared.GetCreateRevision()},
		Write: func(ctx context.Context, key, value string) (bool, int64, error) {
			response, err := c.Txn(ctx).If(owner).Then(clientv3.OpPut(key, value)).Commit()
			if err != nil {
				return false, 0, err
			}
			return response.Succeeded, response.Header.GetRevision(), nil
		},
	}
}
