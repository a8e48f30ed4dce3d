package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/check"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/load"
)

const (
	// pageSize is how many keys are read back at once: about 100 kB.
	pageSize = 1000
	// pageTimeout bounds the reading of one page.
	pageTimeout = 10 * time.Second
)

// audit reads back every key of the run, all at the revision that the first page
// is read at, and lets the checker compare. It returns what the watches are to be
// held against.
func (r *run) audit(ctx context.Context, store load.Store) (*reference, error) {
	audit := r.checker.Audit()
	ref := newReference(r.prefix(), r.seen.cutAt())
	from, end := history.Scope{All: true}.Range(r.prefix())
	page := load.Page{From: from, End: end, Limit: pageSize}
	for {
		listing, err := readPage(ctx, store, page)
		if err != nil {
			return nil, fmt.Errorf("read the writes back from the healed cluster: %w", err)
		}
		page.Revision = listing.Revision
		for _, kv := range listing.Keys {
			key, err := history.ParseKey(r.prefix(), kv.Key)
			if err != nil {
				return nil, fmt.Errorf("read the writes back: %w", err)
			}
			stored := check.Stored{Key: key, Value: kv.Value, ModRevision: kv.ModRevision, Version: kv.Version}
			audit.See(stored)
			ref.see(stored)
			page.From = kv.Key + "\x00"
		}
		if !listing.More {
			audit.Finish(listing.Revision)
			ref.revision = listing.Revision
			return ref, nil
		}
		if len(listing.Keys) == 0 {
			return nil, fmt.Errorf("read the writes back: an empty page after %q claims that there are more keys", page.From)
		}
	}
}

func readPage(ctx context.Context, store load.Store, page load.Page) (load.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return store.List(ctx, page)
}
