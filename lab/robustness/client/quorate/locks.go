package quorate

import (
	"context"
	"errors"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// LockClient is a [client.Locker].
type LockClient struct {
	*clientv3.Client
}

// Session implements [client.Locker].
func (c LockClient) Session(ctx context.Context, ttl int) (client.Session, error) {
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
		return candidate{s.Client(), concurrency.NewElection(s.Session, name)}
	}
	return mutex{s.Client(), concurrency.NewMutex(s.Session, name), style == lockcheck.TryLock}
}

type mutex struct {
	c *clientv3.Client
	*concurrency.Mutex
	try bool
}

func (m mutex) Acquire(ctx context.Context) error {
	if !m.try {
		return m.Lock(ctx)
	}
	err := m.TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		return client.ErrLocked
	}
	return err
}

func (m mutex) Release(ctx context.Context) error { return m.Unlock(ctx) }

func (m mutex) Guard() client.Guard { return NewGuard(m.c, m.IsOwner()) }

type candidate struct {
	c *clientv3.Client
	*concurrency.Election
}

func (e candidate) Acquire(ctx context.Context) error { return e.Campaign(ctx, "") }

func (e candidate) Release(ctx context.Context) error { return e.Resign(ctx) }

func (e candidate) Guard() client.Guard { return NewGuard(e.c, ownerOf(e.Election)) }

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
