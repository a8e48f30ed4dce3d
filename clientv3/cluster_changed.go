package clientv3

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

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
