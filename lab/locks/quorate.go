package locks

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/lab/locks/lockcheck"
)

// dialTimeout is what the clients of a run are configured with.
const dialTimeout = 5 * time.Second

// Quorate connects through a client of Quorate with default policies.
func Quorate(endpoints []string) (Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: dialTimeout, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return quorate{c}, nil
}

type quorate struct {
	*clientv3.Client
}

func (c quorate) Session(ctx context.Context, ttl int) (Session, error) {
	s, err := concurrency.NewSession(c.Client, concurrency.WithContext(ctx), concurrency.WithTTL(ttl))
	if err != nil {
		return nil, err
	}
	return session{s}, nil
}

type session struct {
	*concurrency.Session
}

func (s session) Lease() int64 { return int64(s.Session.Lease()) }

func (s session) Handle(style lockcheck.Style, name string) Handle {
	if style == lockcheck.Campaign {
		return candidate{s.Client(), concurrency.NewElection(s.Session, name)}
	}
	return mutex{s.Client(), concurrency.NewMutex(s.Session, name), style == lockcheck.TryLock}
}

type mutex struct {
	client *clientv3.Client
	*concurrency.Mutex
	try bool
}

func (m mutex) Take(ctx context.Context) error {
	if !m.try {
		return m.Lock(ctx)
	}
	err := m.TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		return ErrLocked
	}
	return err
}

func (m mutex) Give(ctx context.Context) error { return m.Unlock(ctx) }

func (m mutex) Guard() Guard { return guard(m.client, m.IsOwner()) }

type candidate struct {
	client *clientv3.Client
	*concurrency.Election
}

func (e candidate) Take(ctx context.Context) error { return e.Campaign(ctx, "") }

func (e candidate) Give(ctx context.Context) error { return e.Resign(ctx) }

func (e candidate) Guard() Guard { return guard(e.client, e.IsOwner()) }

// guard makes a guard of what an owner compares.
func guard(client *clientv3.Client, owner clientv3.Cmp) Guard {
	compared := owner.GetCompare()
	return Guard{
		Claim: lockcheck.Claim{Key: string(compared.GetKey()), Revision: compared.GetCreateRevision()},
		Write: func(ctx context.Context, key, value string) (bool, int64, error) {
			response, err := client.Txn(ctx).If(owner).Then(clientv3.OpPut(key, value)).Commit()
			if err != nil {
				return false, 0, err
			}
			return response.Succeeded, response.Header.GetRevision(), nil
		},
	}
}
