package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// The errors for which linearizable reads do not use memory, in addition to errors of the server.
var (
	errNotLoaded      = errors.New("it has not been read yet")
	errNotWatched     = errors.New("its watch is not open")
	errBehind         = errors.New("its watch is behind")
	errUnproven       = errors.New("the progress notifications of the server prove nothing: it is kine, a grpc-proxy or an etcd that answers early")
	errVersionUnknown = errors.New("the version of the server is not known yet")
	errLoses          = errors.New("loses events of watches at compactions; 3.4.36, 3.5.18 and later do not")
	errNoConn         = errors.New("the version of the server is not known: the client has no connection of its own")
)

const (
	// versionTimeout bounds the wait for a version, and versionInterval is how often it is asked for: members are upgraded under a
	// watch. It varies by 10 %.
	versionTimeout  = 10 * time.Second
	versionInterval = 10 * time.Minute
)

// versionPauses are the pauses after failed requests for the version, with full jitter.
var versionPauses = retry.Policy{InitialBackoff: 100 * time.Millisecond, MaxBackoff: time.Minute}

// keepsEvents are the first releases, by minor version, whose watches get every event that follows their revision, whatever is
// compacted. Before 3.4.31 and 3.5.13 a watcher that is behind may lose events when it meets a compaction (etcd 17612). One that
// resumes at the compacted revision loses a deletion of that revision: always before 3.4.34 and 3.5.16 (etcd 18089), and
// before 3.4.36 and 3.5.18 if the server had crashed during the compaction (etcd 19179).
var keepsEvents = map[int64]semver.Version{
	4: {Major: 3, Minor: 4, Patch: 36},
	5: {Major: 3, Minor: 5, Patch: 18},
	6: {Major: 3, Minor: 6},
}

// followVersion asks for the version of the server until ctx ends. One member answers for all. A server that is none of etcd's is
// found out by WatchResponse.IsProven. After an error that may pass it is asked again, and trusted meanwhile if it was before.
func (v *view) followVersion(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		transient, doubt := v.c.doubtOfVersion(ctx)
		wait := versionInterval*9/10 + rand.N(versionInterval/5)
		if transient {
			failures++
			wait = versionPauses.Delay(failures)
		} else {
			failures = 0
		}
		if ctx.Err() == nil && (!transient || !v.lossless.Load()) {
			v.setVersionDoubt(doubt)
		}
		_ = pause.For(ctx, wait) // the loop sees that it has ended
	}
}

// doubtOfVersion returns why only serializable reads may rely on watches of the server, nil if all reads may.
func (c *Cache) doubtOfVersion(ctx context.Context) (transient bool, doubt error) {
	conn := c.client.ActiveConnection()
	if conn == nil {
		return false, errNoConn
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return retry.CodeOf(err) != codes.Unimplemented, fmt.Errorf("the version of the server is not known: %w", err)
	}
	version, err := semver.NewVersion(strings.TrimPrefix(resp.Version, "v"))
	if err != nil {
		return false, fmt.Errorf("the version of the server is not known: %w", err)
	}
	first, ok := keepsEvents[version.Minor]
	if version.Major < 3 || version.Major == 3 && (version.Minor < 4 || ok && version.LessThan(first)) {
		return false, fmt.Errorf("etcd %s %w", version, errLoses)
	}
	return false, nil
}

// setVersionDoubt records the doubt about the version of the server. A prefix that was followed on a server that loses events is loaded
// again before it is trusted. It is not called concurrently.
func (v *view) setVersionDoubt(doubt error) {
	switch lost := errors.Is(v.versionDoubt, errLoses); {
	case lost && doubt == nil:
		v.abandon(errUnavailable)
		return
	case lost && !errors.Is(doubt, errVersionUnknown):
		return // until it is loaded again
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.versionDoubt = doubt
	v.lossless.Store(doubt == nil)
	v.window.setLossless(doubt == nil)
	v.doubtLocked()
}

// setWatchDoubt records why the watch proves nothing, nil if it does.
func (v *view) setWatchDoubt(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if errors.Is(v.watchDoubt, err) {
		return // waiting reads need not check again
	}
	v.watchDoubt = err
	v.doubtLocked()
}

func (v *view) doubtLocked() {
	if proven := v.versionDoubt == nil && v.watchDoubt == nil; v.proven.Swap(proven) != proven {
		v.c.requester.notify()
	}
	v.notifyLocked()
}

// remoteReason returns why linearizable reads of the prefix go to the server, nil if memory answers them.
func (v *view) remoteReason() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	reason := v.versionDoubt
	switch {
	case v.snap.Load() == nil && v.err != nil:
		reason = v.err
	case v.snap.Load() == nil:
		reason = errNotLoaded
	case reason == nil && v.watchDoubt != nil:
		reason = v.watchDoubt
	case reason == nil && v.behind.Load():
		reason = errBehind
	case reason == nil:
		return nil
	}
	return fmt.Errorf("etcdclient: cache: %q is read from the server: %w", v.prefix, reason)
}
