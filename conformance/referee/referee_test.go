//go:build experiment

// Package referee has etcd's own validator check an experiment of package robustness.
package referee

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/tests/v3/robustness/client"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness"
)

var (
	soak = flag.Duration("soak", 20*time.Second, "how long faults are injected")
	seed = flag.Uint64("seed", 1, "of the faults")
)

func TestMain(m *testing.M) {
	lab.Main()
	os.Exit(m.Run())
}

// TestReferee runs etcd's own traffic over Quorate while this project's faults are injected. Etcd's own validator compares
// the answers and the watches with what the members have written to disk.
func TestReferee(t *testing.T) {
	cfg := robustness.Config{Duration: *soak, Seed: *seed, Log: t.Output()}
	_, err := robustness.Run(t.Context(), cfg, lab.Config{}, func(ctx context.Context, env *robustness.Env) {
		began, ids := time.Now(), identity.NewIDProvider()
		callers, watchers := client.NewSet(ids, began), client.NewSet(ids, began)
		env.Cleanup(func() error { callers.Close(); watchers.Close(); return nil })
		require.NoError(t, traffic.CheckEmptyDatabaseAtStart(ctx, zap.NewNop(), env.Cluster.Endpoints(), callers))
		last := make(chan int64, 1)
		watched := make(chan error, 1)
		go func() {
			watched <- client.CollectClusterWatchEvents(t.Context(), client.CollectClusterWatchEventsParam{
				Lg: zap.NewNop(), Endpoints: env.Cluster.Endpoints(), MaxRevisionChan: last, ClientSet: watchers,
			})
		}()
		stop := call(t, env.Cluster.Endpoints(), callers)
		injected := env.InjectFaults(ctx)
		stop()
		require.NoError(t, injected)
		end, err := callers.NewClient(env.Cluster.Endpoints())
		require.NoError(t, err)
		_, err = end.Put(t.Context(), "end", "") // the validator wants a last operation that succeeds
		require.NoError(t, err)
		last <- report.OperationsMaxRevision(callers.Reports())
		require.NoError(t, <-watched)

		var data []string
		for _, member := range env.Cluster.Members() {
			data = append(data, filepath.Join(env.Cluster.Dir(), member.Name()))
		}
		persisted, err := report.PersistedRequests(zap.NewNop(), data)
		require.NoError(t, err)
		reports := append(callers.Reports(), watchers.Reports()...)
		operations, events := 0, 0
		for _, r := range reports {
			operations += len(r.KeyValue)
			events += r.WatchEventCount()
		}
		t.Logf("%d operations, %d events, %d requests on disk", operations, events, len(persisted))
		require.Greater(t, min(operations, events), 100)
		check := func() error {
			return validate.ValidateAndReturnVisualize(zap.NewNop(), validate.Config{ExpectRevisionUnique: load.ExpectUniqueRevision()},
				reports, persisted, 5*time.Minute).Error()
		}
		require.NoError(t, check())
		require.True(t, loseEvents(watchers.Reports()))
		require.Error(t, check(), "an event is missing")
	})
	require.NoError(t, err)
}

// loseEvents removes the first response with events from the reports, if there is one.
func loseEvents(reports []report.ClientReport) bool {
	for _, r := range reports {
		for i := range r.Watch {
			watch := &r.Watch[i]
			lost := slices.IndexFunc(watch.Responses, func(r model.WatchResponse) bool { return len(r.Events) > 0 })
			if lost >= 0 {
				watch.Responses = slices.Delete(watch.Responses, lost, lost+1)
				return true
			}
		}
	}
	return false
}

// load is puts, deletions, transactions, leases and reads of a few keys.
var load = traffic.EtcdPutDeleteLease

// call has clients of one endpoint each and clients of all call and watch until stop is called.
func call(t *testing.T, endpoints []string, clients *client.ClientSet) (stop func()) {
	t.Helper()
	var running sync.WaitGroup
	finish := make(chan struct{})
	limiter, keys := rate.NewLimiter(rate.Limit(traffic.KeyValueMedium.MaximalQPS), 1), traffic.NewKeyStore(10, "key")
	require.NoError(t, traffic.SimulateKeyValueTraffic(t.Context(), &running, &traffic.KeyValueMedium, endpoints, clients, load,
		traffic.RunTrafficLoopParam{
			QPSLimiter: limiter, IDs: clients.IdentityProvider(), LeaseIDStorage: identity.NewLeaseIDStorage(),
			NonUniqueRequestConcurrencyLimiter: traffic.NewConcurrencyLimiter(traffic.KeyValueMedium.MaxNonUniqueRequestConcurrency),
			KeyStore:                           keys, Storage: traffic.NewKubernetesStorage(), Finish: finish,
		}))
	require.NoError(t, traffic.SimulateWatchTraffic(t.Context(), &running, &traffic.WatchDefault, endpoints, clients, load,
		traffic.RunWatchLoopParam{
			Config: traffic.WatchDefault, QPSLimiter: limiter, KeyStore: keys, Storage: traffic.NewKubernetesStorage(), Finish: finish,
			Logger: zap.NewNop(),
		}))
	return func() {
		close(finish)
		running.Wait()
	}
}
