package etcdtest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/etcdtest"
)

// Users is a repository: who is online, each under a lease of 30 s.
type Users struct{ client *clientv3.Client }

func NewUsers(client *clientv3.Client) *Users { return &Users{client} }

func (u *Users) Login(ctx context.Context, name string) error {
	lease, err := u.client.Grant(ctx, 30)
	if err == nil {
		_, err = u.client.Put(ctx, "online/"+name, "", clientv3.WithLease(lease.ID))
	}
	return err
}

func (u *Users) Online(ctx context.Context) (int64, error) {
	resp, err := u.client.Get(ctx, "online/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return resp.Count, nil
}

func TestUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time is virtual
		users := NewUsers(etcdtest.Fake(t).Client)
		require.NoError(t, users.Login(t.Context(), "ann"))
		time.Sleep(time.Minute) // the lease of 30 s expires; the test takes milliseconds
		online, err := users.Online(t.Context())
		require.NoError(t, err)
		require.Zero(t, online)
	})
}

// A write whose answer is lost has an unknown outcome.
func TestLostAnswer(t *testing.T) {
	etcd := etcdtest.Fake(t, etcdtest.Config{Members: 3})
	etcd.LoseAnswer("Put")
	require.Error(t, NewUsers(etcd.Client).Login(t.Context(), "ann"))
	online, err := NewUsers(etcd.Client).Online(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, online) // it was executed
}

// An example has no testing.TB: it calls New in place of Fake.
func Example() {
	etcd, err := etcdtest.New(etcdtest.Config{})
	if err != nil {
		panic(err)
	}
	defer etcd.Close()
	users := NewUsers(etcd.Client)
	fmt.Println(users.Login(context.Background(), "ann"))
	fmt.Println(users.Online(context.Background()))
	// Output:
	// <nil>
	// 1 <nil>
}
