package store_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	. "github.com/quorate/quorate/clientv3/store"
)

// TestTxnOverStores moves replicas between stores of different codecs, and counts the moves.
func TestTxnOverStores(t *testing.T) {
	const clients, times = 3, 6
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		configs, log := New(client, "configs/", asJSON), New(client, "log/", Bytes())
		clienttest.Put(t, cluster, "configs/web", `{"Replicas":100}`)
		move := func(tx *Tx) error {
			web, err := configs.In(tx).Get("web")
			if err != nil {
				return err
			}
			db, err := configs.In(tx).Get("db")
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			moves, err := log.In(tx).Get("moves")
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			return errors.Join(configs.In(tx).Put("web", Config{web.Replicas - 1}), configs.In(tx).Put("db", Config{db.Replicas + 1}),
				log.In(tx).Put("moves", append(moves, '.')))
		}
		var movers sync.WaitGroup
		for range clients {
			movers.Go(func() {
				for range times {
					rev, err := Txn(t.Context(), client, move)
					assert.NoError(t, err)
					assert.Positive(t, rev)
				}
			})
		}
		movers.Wait()
		require.Equal(t, `{"Replicas":82}`, string(cluster.Get("configs/web").Value))
		require.Equal(t, `{"Replicas":18}`, string(cluster.Get("configs/db").Value))
		require.Len(t, cluster.Get("log/moves").Value, clients*times)
	})
}

// TestTxnReadsWhatItWrites has the errors of a TxStore.
func TestTxnReadsWhatItWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		s := New(client, "configs/", asJSON)
		clienttest.Put(t, cluster, "configs/web", `{"Replicas":1}`)
		clienttest.Put(t, cluster, "configs/bad", `{`)
		no := errors.New("no")
		_, err := Txn(t.Context(), client, func(tx *Tx) error {
			in := s.In(tx)
			_, err := in.Get("new")
			require.ErrorIs(t, err, ErrNotFound)
			require.NoError(t, in.Put("new", Config{2}))
			c, err := in.Get("new")
			require.NoError(t, err)
			require.Equal(t, Config{2}, c)
			in.Delete("web")
			_, err = in.Get("web")
			require.ErrorIs(t, err, ErrNotFound)
			_, err = in.Get("bad")
			require.ErrorIs(t, err, ErrDecode)
			require.ErrorContains(t, err, `store: get "configs/bad" (json)`)
			return no
		})
		require.Equal(t, no, err)
		require.NotNil(t, cluster.Get("configs/web"))
		require.Nil(t, cluster.Get("configs/new"))
	})
}
