package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	. "github.com/quorate/quorate/clientv3/store"
)

func TestCodecs(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, _ *Store[Config]) {
		messages := New(client, "proto/", Proto[*wrapperspb.StringValue]())
		clienttest.Must(messages.Put(t.Context(), "k", wrapperspb.String("v")))
		m := clienttest.Must(messages.Get(t.Context(), "k"))
		require.Equal(t, "v", m.Value.Value)
		clienttest.Put(t, cluster, "proto/bad", "\xff")
		_, err := messages.Get(t.Context(), "bad")
		require.ErrorIs(t, err, ErrDecode)
		require.ErrorContains(t, err, `store: get "proto/bad" (protobuf): the value cannot be decoded: proto`)

		raw := New(client, "bytes/", Bytes())
		for _, value := range [][]byte{{}, {0, 255}} {
			clienttest.Must(raw.Put(t.Context(), "k", value))
			b := clienttest.Must(raw.Get(t.Context(), "k"))
			require.Equal(t, value, b.Value)
		}

		odd := New(client, "odd/", JSON[chan int]())
		for name, write := range map[string]func() error{
			"put":    func() error { _, err := odd.Put(t.Context(), "k", nil); return err },
			"create": func() error { _, err := odd.Create(t.Context(), "k", make(chan int)); return err },
			"update": func() error {
				_, err := odd.CreateOrUpdate(t.Context(), "k", func(chan int) (chan int, error) { return make(chan int), nil })
				return err
			},
		} {
			err := write()
			require.ErrorContains(t, err, "store: "+name+` "odd/k" (json): not executed: the value cannot be encoded`)
		}
		require.Zero(t, cluster.PutCount("odd/k"))
	})
}

func TestGet(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client, s *Store[Config]) {
		first := clienttest.Put(t, cluster, "configs/web", `{"Replicas":1}`)
		clienttest.Put(t, cluster, "configs/web", `{"Replicas":2}`)
		e := clienttest.Must(s.Get(t.Context(), "web", clientv3.WithRev(first), clientv3.WithSerializable()))
		require.Equal(t, Config{1}, e.Value)
		for _, opt := range []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithCountOnly()} {
			_, err := s.Get(t.Context(), "web", opt)
			require.ErrorContains(t, err, "use All")
		}

		clienttest.Put(t, cluster, "configs/web", `{`)
		e, err := s.Get(t.Context(), "web")
		require.ErrorIs(t, err, ErrDecode)
		_, err = s.Update(t.Context(), "web", increment)
		require.ErrorIs(t, err, ErrDecode)
		require.NoError(t, s.DeleteUnmodified(t.Context(), e), "it can be deleted")
		require.Nil(t, cluster.Get("configs/web"))
	})
}

// TestAll reads ranges of a store of two pages, of which a value cannot be decoded, while it is written.
func TestAll(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client, s *Store[Config]) {
		clienttest.Put(t, cluster, "config", "other")
		clienttest.Put(t, cluster, "configs0", "other")
		for i := range 300 {
			clienttest.Put(t, cluster, fmt.Sprintf("configs/%03d", i), fmt.Sprintf(`{"Replicas":%d}`, i))
		}
		clienttest.Put(t, cluster, "configs/100", "no JSON")
		tests := map[string]struct {
			opts       []clientv3.OpOption
			first, end int
		}{
			"all":         {nil, 0, 300},
			"prefix":      {[]clientv3.OpOption{s.Prefix("1")}, 100, 200},
			"between":     {[]clientv3.OpOption{s.Between("050", "250")}, 50, 250},
			"from":        {[]clientv3.OpOption{s.Between("250", "")}, 250, 300},
			"one key":     {[]clientv3.OpOption{s.Between("007", "007\x00")}, 7, 8},
			"limit":       {[]clientv3.OpOption{clientv3.WithLimit(260), clientv3.WithSerializable()}, 0, 260},
			"past":        {[]clientv3.OpOption{clientv3.WithRev(cluster.Get("configs/009").ModRevision)}, 0, 10},
			"nothing":     {[]clientv3.OpOption{s.Prefix("x")}, 0, 0},
			"nothing too": {[]clientv3.OpOption{s.Between("2", "1")}, 0, 0},
		}
		for name, tt := range tests {
			next := tt.first
			for e, err := range s.All(t.Context(), tt.opts...) {
				require.Equal(t, fmt.Sprintf("%03d", next), e.Key, name)
				if next == 100 {
					require.ErrorIs(t, err, ErrDecode)
					require.ErrorContains(t, err, `store: list "configs/100" (json)`)
				} else {
					require.NoError(t, err)
					require.Equal(t, Config{next}, e.Value)
				}
				clienttest.Put(t, cluster, "configs/100", "still no JSON")
				clienttest.Put(t, cluster, "configs/299", `{"Replicas":299}`)
				next++
			}
			require.Equal(t, tt.end, next, name)
		}
		for range s.All(t.Context()) {
			break
		}
	})
}

func TestAllYieldsOneErrorWhenItFails(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, s *Store[Config]) {
		clienttest.Put(t, cluster, "configs/a", `{}`)
		require.NoError(t, cluster.Compact(clienttest.Put(t, cluster, "configs/a", `{}`)))
		for want, opts := range map[string][]clientv3.OpOption{
			"use Prefix and Between":                  {clientv3.WithFromKey()},
			"use All, or the KV":                      {clientv3.WithCountOnly()},
			"prefix: use Prefix":                      {New(client, "other/", asJSON).Prefix("")},
			rpctypes.ErrorDesc(rpctypes.ErrCompacted): {clientv3.WithRev(1)},
		} {
			n := 0
			for e, err := range s.All(t.Context(), opts...) {
				require.ErrorContains(t, err, want)
				require.ErrorContains(t, err, "(json)")
				require.Zero(t, e)
				n++
			}
			require.Equal(t, 1, n)
		}
		everything := New(client, "", Bytes())
		for e, err := range everything.All(t.Context(), clientv3.WithFromKey()) {
			require.NoError(t, err)
			require.Equal(t, "configs/a", e.Key)
		}
	})
}

// TestTxnOverStores moves replicas between stores of different codecs, and counts the moves.
func TestTxnOverStores(t *testing.T) {
	const clients, times = 3, 6
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, s *Store[Config]) {
		configs, log := s, New(client, "log/", Bytes())
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
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, s *Store[Config]) {
		clienttest.Put(t, cluster, "configs/web", `{"Replicas":1}`)
		clienttest.Put(t, cluster, "configs/bad", `{`)
		no := errors.New("no")
		_, err := Txn(t.Context(), client, func(tx *Tx) error {
			in := s.In(tx)
			_, err := in.Get("new")
			require.ErrorIs(t, err, ErrNotFound)
			require.NoError(t, in.Put("new", Config{2}))
			c := clienttest.Must(in.Get("new"))
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
