package clientv3

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/retry"
)

// ContextError converts the error of a call made with ctx into the error that the
// API returns:
//
//   - a *retry.UnknownOutcomeError is unchanged, whatever its cause;
//   - a known error of the server becomes the rpctypes.EtcdError, comparable with
//     ==;
//   - a cancelled call, or one past its deadline, becomes ctx.Err() if ctx ended;
//   - everything else, nil included, is unchanged.
func ContextError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, unknown := errors.AsType[*retry.UnknownOutcomeError](err); unknown {
		return err
	}
	err = rpctypes.Error(err)
	if isServerError(err) {
		return err
	}
	s, ok := status.FromError(err)
	ended := ok && (s.Code() == codes.Canceled || s.Code() == codes.DeadlineExceeded)
	if ended && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// isServerError reports whether err, a result of rpctypes.Error, is a known error
// of the server.
func isServerError(err error) bool {
	_, known := errors.AsType[rpctypes.EtcdError](err)
	return known
}

// IsConnCanceled reports whether err comes from a client or connection that was
// closed. A call that its own caller cancelled looks the same.
func IsConnCanceled(err error) bool {
	if err == nil {
		return false
	}
	if s, ok := status.FromError(err); ok {
		return s.Code() == codes.Canceled || s.Message() == "transport is closing"
	}
	return errors.Is(err, context.Canceled) ||
		strings.Contains(err.Error(), "grpc: the client connection is closing")
}

// ClusterChangedError reports that the cluster is not the one that the client used
// before: another cluster answers at its endpoints, or the revision has gone back
// because the cluster was restored from a backup. Earlier reads belong to a history
// that no longer exists, and writes since the backup are lost.
//
// Watches of that history end with it ([WatchResponse.Err]), the caches of package
// leasing drop what they hold, and a KV of package ordering fails its reads. Calls of
// the client itself continue on the present cluster. To recover, read again and watch
// from the revision of that read. If endpoints belong to different clusters, the present one
// changes with each answer; the log has a warning, once a minute at most, and streams of
// watches are opened less and less often.
//
// A client detects the change in the headers of its watches, gets, puts, deletes and
// transactions. It compares revisions only where neither a lagging member can be mistaken
// for a restored store, nor a grpc-proxy that serves single keys from memory
// (--experimental-leasing-prefix): in writes, and linearizable reads of ranges. A watch that
// resumes on a member with a lower revision than the watch has seen costs one such read.
// A restored cluster that has the same ID and has already passed the revision is not
// detected. kine sends no cluster ID, so no change is detected there.
type ClusterChangedError struct {
	// OldClusterID and OldRevision are the ID before the change and the highest revision
	// seen.
	OldClusterID uint64
	OldRevision  int64
	// NewClusterID and NewRevision are from the response that revealed the change.
	NewClusterID uint64
	NewRevision  int64
}

func (e *ClusterChangedError) Error() string {
	if e.OldClusterID == e.NewClusterID {
		return fmt.Sprintf("etcdclient: the cluster %x has gone back from revision %d to %d: it was restored; read again",
			e.OldClusterID, e.OldRevision, e.NewRevision)
	}
	return fmt.Sprintf("etcdclient: the cluster is another one: %x at revision %d, before %x at revision %d; read again",
		e.NewClusterID, e.NewRevision, e.OldClusterID, e.OldRevision)
}

// changeWarnings is the least time between two warnings: a client whose endpoints belong to two
// clusters sees a change whenever the other one answers.
const changeWarnings = time.Minute

// clusterChanged returns a function that logs a change and returns its error. Its calls do not overlap.
func (c *Client) clusterChanged() func(*lineage.Change) error {
	var warned time.Time
	return func(change *lineage.Change) error {
		err := (*ClusterChangedError)(change)
		if time.Since(warned) >= changeWarnings {
			warned = time.Now()
			c.GetLogger().Warn("the cluster was restored or replaced, or endpoints belong to several clusters, which quorate doctor shows",
				zap.Error(err))
		}
		return err
	}
}

// readKey makes a linearizable read of key that returns only the header.
func readKey(ctx context.Context, c *Client, key string) error {
	// A range of one key: a grpc-proxy with a leasing prefix serves single keys from memory.
	_, err := NewKV(c).Get(ctx, key, WithRange(key+"\x00"), WithCountOnly())
	return err
}
