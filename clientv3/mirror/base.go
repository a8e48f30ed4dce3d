package mirror

import (
	"context"
	"errors"

	"github.com/quorate/quorate/clientv3"
)

const (
	// pagesAhead bounds what is held for a reader who is slower than the cluster, such
	// as one that writes every key somewhere else.
	pagesAhead = 64

	// For every page the server counts all keys that are left, so that pages must not
	// be small, and holds the page in memory, so that they must not be large either.
	firstPageKeys = 100
	maxPageKeys   = 1000
	pageBytes     = 1 << 20
)

var (
	// errNoProgress ends a read that would never end, or would look complete.
	errNoProgress = errors.New("mirror: the server says that more keys follow, and returned none")
	errNoRevision = errors.New("mirror: the server does not say at which revision it reads")
)

func (s *syncer) SyncBase(ctx context.Context) (<-chan *clientv3.GetResponse, chan error) {
	pages := make(chan *clientv3.GetResponse, pagesAhead)
	errs := make(chan error, 1)
	end := func(err error) {
		if err != nil {
			errs <- err
		}
		close(pages)
		close(errs)
	}
	if err := s.choose(ctx); err != nil {
		end(err)
		return pages, errs
	}
	b := base{client: s.client, rev: s.rev.Load(), start: s.start(), end: clientv3.GetPrefixRangeEnd(s.prefix), limit: firstPageKeys}
	go func() { end(b.deliver(ctx, pages)) }()
	return pages, errs
}

// start returns the first key that there can be.
func (s *syncer) start() string {
	if s.prefix == "" {
		return "\x00"
	}
	return s.prefix
}

// readStart returns a response whose header has the present revision. It reads a range of one key: a grpc-proxy with a
// leasing prefix serves single keys from memory, with an earlier revision.
func (s *syncer) readStart(ctx context.Context) (*clientv3.GetResponse, error) {
	return s.client.Get(ctx, s.start(), clientv3.WithRange(s.start()+"\x00"), clientv3.WithCountOnly())
}

// choose chooses a revision if none is set, by reading a key of the base, which every reader of the base may read.
func (s *syncer) choose(ctx context.Context) error {
	if s.rev.Load() != 0 {
		return nil
	}
	resp, err := s.readStart(ctx)
	if err != nil {
		return err
	}
	rev := resp.Header.GetRevision()
	if rev == 0 {
		return errNoRevision
	}
	if s.rev.CompareAndSwap(0, rev) {
		s.cluster.Store(resp.Header.GetClusterId())
	}
	return nil
}

type base struct {
	client *clientv3.Client
	rev    int64
	start  string // the first key of the next page
	end    string
	limit  int // of the next page
}

func (b *base) deliver(ctx context.Context, pages chan<- *clientv3.GetResponse) error {
	for {
		page, err := b.client.Get(ctx, b.start, clientv3.WithRange(b.end), clientv3.WithRev(b.rev),
			clientv3.WithLimit(int64(b.limit)), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
		if err != nil {
			return err
		}
		// Once it is delivered, the page is the reader's to change.
		more := page.More
		if more {
			if err := b.advance(page); err != nil {
				return err
			}
		}
		select {
		case pages <- page:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !more {
			return nil
		}
	}
}

// advance moves behind a page that is not the last one.
func (b *base) advance(page *clientv3.GetResponse) error {
	if len(page.Kvs) == 0 {
		return errNoProgress
	}
	b.start = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	size := 1
	for _, kv := range page.Kvs {
		size += len(kv.Key) + len(kv.Value)
	}
	fitting := b.limit * pageBytes / size
	b.limit = max(min(fitting, 2*b.limit, maxPageKeys), 1)
	return nil
}
