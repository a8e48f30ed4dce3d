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
// is read at, and lets the checker compare.
func (r *run) audit(ctx context.Context, store load.Store) error {
	audit := r.checker.Audit()
	prefix := r.prefix()
	page := load.Page{From: prefix, End: prefixEnd(prefix), Limit: pageSize}
	for {
		listing, err := readPage(ctx, store, page)
		if err != nil {
			return fmt.Errorf("read the writes back from the healed cluster: %w", err)
		}
		page.Revision = listing.Revision
		for _, kv := range listing.Keys {
			key, err := history.ParseKey(prefix, kv.Key)
			if err != nil {
				return fmt.Errorf("read the writes back: %w", err)
			}
			audit.See(check.Stored{Key: key, Value: kv.Value, ModRevision: kv.ModRevision, Version: kv.Version})
			page.From = kv.Key + "\x00"
		}
		if !listing.More {
			audit.Finish(listing.Revision)
			return nil
		}
		if len(listing.Keys) == 0 {
			return fmt.Errorf("read the writes back: an empty page after %q claims that there are more keys", page.From)
		}
	}
}

func readPage(ctx context.Context, store load.Store, page load.Page) (load.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return store.List(ctx, page)
}

// prefixEnd returns the first key after all that begin with a prefix, which ends
// in a slash.
func prefixEnd(prefix string) string { return prefix[:len(prefix)-1] + string(rune('/'+1)) }
