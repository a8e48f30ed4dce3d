package leasing

import (
	"errors"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// watchLeasingKeys watches all leasing keys until the session ends. When the watch
// breaks, the cache is suspended until the leasing keys have been listed and the
// watch continues from there. When the cluster has changed, the session belongs to
// another history and ends. After the first list, successful or not, nil is sent to
// ready.
func (k *kv) watchLeasingKeys(s *session, ready chan<- error) {
	var reported bool
	for failures := 1; s.ctx.Err() == nil; failures++ {
		rev, err := k.resync(s)
		if ready != nil && (err == nil || permanent(err)) {
			ready <- nil
			ready = nil
		}
		var seen bool
		if err == nil {
			var ev *clientv3.Event
			for ev, err = range clientv3.Events(s.ctx, k.client, k.prefix, clientv3.WithPrefix(), clientv3.WithRev(rev+1)) {
				if err != nil {
					break
				}
				seen = true
				k.leasingKeyEvent(ev)
			}
		}
		k.cache.suspend()
		if _, changed := errors.AsType[*clientv3.ClusterChangedError](err); changed {
			k.client.GetLogger().Warn("the cluster has changed; what was cached is dropped",
				zap.String("prefix", k.prefix), zap.Error(err))
			return
		}
		if seen {
			failures, reported = 1, false
		}
		if !reported && s.ctx.Err() == nil {
			reported = true
			k.client.GetLogger().Warn("leasing keys cannot be watched; nothing is cached until they can",
				zap.String("prefix", k.prefix), zap.Error(err))
		}
		_ = pause.For(s.ctx, pauses.Delay(failures)) // the loop checks the context
	}
	if ready != nil {
		ready <- nil
	}
}

// resync lists the leasing keys, and switches the cache on at the returned
// revision.
func (k *kv) resync(s *session) (rev int64, err error) {
	seen := k.cache.seen()
	resp, err := k.remote.Get(s.ctx, k.prefix, clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	if c := lineage.Compare(seen, resp.Header, true); c != nil {
		return 0, (*clientv3.ClusterChangedError)(c)
	}
	k.cache.observe(resp.Header)
	k.releases.add(k.cache.resync(resp.Kvs, resp.Header.Revision)...)
	return resp.Header.Revision, nil
}

func (k *kv) leasingKeyEvent(ev *clientv3.Event) {
	key := strings.TrimPrefix(string(ev.Kv.Key), k.prefix)
	switch {
	case ev.Type == mvccpb.Event_DELETE:
		k.cache.invalidate(key, ev.Kv.ModRevision)
	case string(ev.Kv.Value) == revoked:
		l := leasingKey{string(ev.Kv.Key), ev.Kv.CreateRevision}
		if k.cache.revokeEvent(key, l.rev, clientv3.LeaseID(ev.Kv.Lease)) {
			k.releases.add(l)
		}
	}
}

// pauses is the backoff between attempts, with full jitter.
var pauses = retry.Policy{InitialBackoff: 50 * time.Millisecond, MaxBackoff: 2 * time.Second}

// permanent reports whether a repeated call would fail with the same error.
func permanent(err error) bool {
	switch retry.CodeOf(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	default:
		return false
	}
}
