//go:build experiment

package locks

import (
	"context"
	"errors"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/quorate/quorate/lab/locks/lockcheck"
	"github.com/quorate/quorate/lab/soak"
)

var officialFor = flag.Duration("official", 0, "how long to run with the official client; 0 skips it")

// officialClient connects through the official client.
func officialClient(endpoints []string) (Client, error) {
	c, err := official.New(official.Config{Endpoints: endpoints, DialTimeout: dialTimeout, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return theirs{c}, nil
}

type theirs struct {
	*official.Client
}

func (c theirs) Session(ctx context.Context, ttl int) (Session, error) {
	s, err := concurrency.NewSession(c.Client, concurrency.WithContext(ctx), concurrency.WithTTL(ttl))
	if err != nil {
		return nil, err
	}
	return theirSession{s}, nil
}

type theirSession struct {
	*concurrency.Session
}

func (s theirSession) Lease() int64 { return int64(s.Session.Lease()) }

func (s theirSession) Handle(style lockcheck.Style, name string) Handle {
	if style == lockcheck.Campaign {
		return theirElection{s.Client(), concurrency.NewElection(s.Session, name)}
	}
	return theirMutex{s.Client(), concurrency.NewMutex(s.Session, name), style == lockcheck.TryLock}
}

type theirMutex struct {
	client *official.Client
	*concurrency.Mutex
	try bool
}

func (m theirMutex) Take(ctx context.Context) error {
	if !m.try {
		return m.Lock(ctx)
	}
	err := m.TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		return ErrLocked
	}
	return err
}

func (m theirMutex) Give(ctx context.Context) error { return m.Unlock(ctx) }

func (m theirMutex) Guard() Guard { return theirGuard(m.client, m.IsOwner()) }

type theirElection struct {
	client *official.Client
	*concurrency.Election
}

func (e theirElection) Take(ctx context.Context) error { return e.Campaign(ctx, "") }

func (e theirElection) Give(ctx context.Context) error { return e.Resign(ctx) }

func (e theirElection) Guard() Guard {
	return theirGuard(e.client, official.Compare(official.CreateRevision(e.Key()), "=", e.Rev()))
}

func theirGuard(client *official.Client, owner official.Cmp) Guard {
	compared := owner.GetCompare()
	return Guard{
		Claim: lockcheck.Claim{Key: string(compared.GetKey()), Revision: compared.GetCreateRevision()},
		Write: func(ctx context.Context, key, value string) (bool, int64, error) {
			response, err := client.Txn(ctx).If(owner).Then(official.OpPut(key, value)).Commit()
			if err != nil {
				return false, 0, err
			}
			return response.Succeeded, response.Header.GetRevision(), nil
		},
	}
}

// TestOfficial shows how the official client does under the same faults. What it
// breaks is no failure of ours.
func TestOfficial(t *testing.T) {
	if *officialFor == 0 {
		t.Skip("run it with -official 5m")
	}
	result, err := Run(t.Context(), Config{
		Config:  soak.Config{Duration: *officialFor, Seed: *seed, Dir: t.TempDir(), Log: t.Output()},
		Connect: officialClient,
	})
	require.NoError(t, err)
	t.Log("\n" + result.String())
}
