package cache

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	defaultMaxBytes      = 256 << 20
	defaultMaxWait       = 500 * time.Millisecond
	defaultProbeInterval = time.Minute
	defaultMaxVersions   = 256
	defaultMaxEvents     = 4096

	// minProbeInterval keeps a configuration from polling the cluster.
	minProbeInterval = time.Second
	// maxProbeInterval keeps multiples of the interval within a Duration: 29 years.
	maxProbeInterval time.Duration = math.MaxInt64 / 10
)

// Config configures a [Cache]. Only Prefixes is required; the zero value of every other field means
// its default.
type Config struct {
	// Prefixes are the prefixes of the keys that are cached, "" for every key. None may begin
	// with another. Each costs one watch and the memory for its keys and values.
	Prefixes []string

	// MaxBytes bounds what the cache holds of all prefixes together: keys, values, and about 200
	// bytes for each key. A prefix that would exceed it is dropped and read from the server, and
	// loaded again after 5 to 10 minutes; [Config.OnDrop] gets an *[OverflowError]. The default is
	// 256 MiB.
	MaxBytes int64

	// MaxWait bounds how long a linearizable read waits for a watch that is behind. After it the
	// read goes to the server, and so do later ones until the watch has caught up. The default is
	// 500 ms.
	MaxWait time.Duration

	// ProbeInterval is how often the cache checks that its prefixes may still be read, by a read-only transaction for
	// each 128 of them, and proves its freshness if no read has done so, by a linearizable count of one key and a
	// progress request. It varies by 10 %. A stuck watch is detected, and reopened on another member, within an
	// interval and 5 s; a withdrawn permission, even for a part of a prefix, within an interval. The default is 1 min;
	// the least is 1 s.
	ProbeInterval time.Duration

	// MaxVersions bounds how many earlier versions of each prefix are kept for reads at a revision
	// (clientv3.WithRev), the pages of a range for instance; a version is the state after a
	// response of the watch. A version can be read even if the server has compacted it since. The
	// versions of a prefix hold at most an eighth of MaxBytes, in addition to MaxBytes. The
	// default is 256; a negative number keeps none.
	MaxVersions int

	// MaxEvents bounds how many events of each prefix are kept for watches of [Cache.Watcher], from its first call on. The events of a prefix hold
	// at most an eighth of MaxBytes, in addition to MaxBytes, and about twice that once watches deliver them, which share one copy. The latest
	// response of the watch is always kept. The default is 4096.
	MaxEvents int

	// OnResync, if set, is called when a prefix was read again because its watch could not
	// continue. It is called by the goroutine that follows the prefix and must not block.
	OnResync func(Resynced)

	// OnStatus, if set, is called with the first Status of each prefix and when its State changes, by a goroutine of the prefix. Err and Since may change
	// without a call, and a State that is soon replaced may be left out. Close waits for it to return.
	OnStatus func(Status)

	// OnDrop, if set, is called when the keys of a prefix were dropped from memory: with a *clientv3.ClusterChangedError, an
	// *[OverflowError], or rpctypes.ErrPermissionDenied. Reads go to the server until it is loaded again. The same rules hold
	// as for OnResync.
	OnDrop func(prefix string, cause error)
}

// Resynced says that a prefix was brought up to date by a read, because the revisions that its watch
// needed were compacted, or because its keys had been dropped. Of the changes in between only the
// result is known.
type Resynced struct {
	Prefix string
	// Revision is the revision of the read.
	Revision int64
	// Full says that everything was read, and not just what had changed.
	Full bool
	// Changed and Removed count the keys that are new or different, and those that are gone.
	Changed, Removed int
}

// OverflowError says that a prefix does not fit into [Config.MaxBytes].
type OverflowError struct {
	Prefix   string
	MaxBytes int64
}

func (e *OverflowError) Error() string {
	return fmt.Sprintf("etcdclient: cache: the prefix %q does not fit into %d bytes (Config.MaxBytes); it is read from the server", e.Prefix, e.MaxBytes)
}

func (cfg Config) complete() (Config, error) {
	cfg.Prefixes = slices.Sorted(slices.Values(cfg.Prefixes))
	if len(cfg.Prefixes) == 0 {
		return cfg, fmt.Errorf("etcdclient: cache: Prefixes is empty: name what is to be cached, \"\" for every key")
	}
	for i, p := range cfg.Prefixes[1:] {
		if strings.HasPrefix(p, cfg.Prefixes[i]) {
			return cfg, fmt.Errorf("etcdclient: cache: Prefixes has %q and %q: the first includes the second", cfg.Prefixes[i], p)
		}
	}
	switch {
	case cfg.MaxBytes < 0:
		return cfg, fmt.Errorf("etcdclient: cache: MaxBytes is %d: it cannot be negative; 0 means the default", cfg.MaxBytes)
	case cfg.MaxEvents < 0:
		return cfg, fmt.Errorf("etcdclient: cache: MaxEvents is %d: it cannot be negative; 0 means the default", cfg.MaxEvents)
	case cfg.MaxWait < 0:
		return cfg, fmt.Errorf("etcdclient: cache: MaxWait is %v: it cannot be negative; 0 means the default", cfg.MaxWait)
	case cfg.ProbeInterval != 0 && cfg.ProbeInterval < minProbeInterval:
		return cfg, fmt.Errorf("etcdclient: cache: ProbeInterval is %v: the least is %v; 0 means the default", cfg.ProbeInterval, minProbeInterval)
	}
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, defaultMaxBytes)
	cfg.MaxWait = cmp.Or(cfg.MaxWait, defaultMaxWait)
	cfg.ProbeInterval = min(cmp.Or(cfg.ProbeInterval, defaultProbeInterval), maxProbeInterval)
	cfg.MaxEvents = cmp.Or(cfg.MaxEvents, defaultMaxEvents)
	cfg.MaxVersions = min(max(cmp.Or(cfg.MaxVersions, defaultMaxVersions), 0), math.MaxInt-1) // the present one counts, too
	return cfg, nil
}
