package mirror

import (
	"cmp"
	"context"
	"errors"

	"github.com/quorate/quorate/clientv3"
)

// pagesAhead bounds what is held for a reader who is slower than the cluster, such
// as one that writes every key somewhere else.
const pagesAhead = 16

var errNoRevision = errors.New("mirror: the server does not say at which revision it reads")

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
	go func() { end(s.deliver(ctx, pages)) }()
	return pages, errs
}

// start returns the first key that there can be.
func (s *syncer) start() string { return cmp.Or(s.prefix, "\x00") }

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

func (s *syncer) deliver(ctx context.Context, pages chan<- *clientv3.GetResponse) error {
	end := clientv3.WithRange(clientv3.GetPrefixRangeEnd(s.prefix))
	for page, err := range clientv3.Pages(ctx, s.client, s.start(), end, clientv3.WithRev(s.rev.Load())) {
		if err != nil {
			return err
		}
		select {
		case pages <- page:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
