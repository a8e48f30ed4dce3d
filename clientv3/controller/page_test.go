package controller_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/controller"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/clientv3/store"
)

// What docs/controllers.md shows.
var _ = pageCache

func pageCache(client *clientv3.Client, ready *atomic.Bool) error {
	c, err := cache.New(client, cache.Config{Prefixes: []string{"jobs/"}, OnStatus: func(s cache.Status) { ready.Store(s.State == cache.InSync) }})
	if err != nil {
		return err
	}
	defer c.Close()
	client.KV, client.Watcher = c, c.Watcher() // for all that use the client
	return nil
}

// Job is what is to be done.
type Job struct{ Name string }

func pageController(ctx context.Context, client *clientv3.Client, jobs *cache.Informer[Job]) error {
	return leaderelection.Run(ctx, client, leaderelection.Config{Name: "controllers/jobs"}, func(ctx context.Context, term *leaderelection.Term) error {
		return controller.Run(ctx, jobs, controller.Config[Job]{Workers: 4, Resync: time.Hour}, func(ctx context.Context, key string) error {
			job, ok := jobs.Get(key) // jobs is an informer; !ok: it was deleted
			if !ok {
				return nil
			}
			_, err := term.KV().Put(ctx, "done/"+job.Value.Name, "yes") // refused when this process does not lead any more
			return err                                                  // not nil: again after a backoff
		})
	})
}

func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(t, "jobs/1", `{"Name": "paint"}`)
		c := clienttest.Must(cache.New(r.client, cache.Config{Prefixes: []string{"jobs/"}}))
		defer c.Close()
		decode := func(_, value []byte) (Job, error) { return store.JSON[Job]().Decode(value) }
		jobs := clienttest.Must(cache.NewInformer(c, cache.InformerConfig[Job]{Decode: decode}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		done, ended := r.client.Watch(ctx, "done/paint"), make(chan error)
		go func() { ended <- pageController(ctx, r.client, jobs) }()
		require.Len(t, (<-done).Events, 1)
		cancel()
		require.NoError(t, <-ended)
	})
}
