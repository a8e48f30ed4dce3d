// Package mirror copies the keys of a cluster and follows their changes.
//
//	syncer := mirror.NewSyncer(client, "app/", 0)
//	pages, errs := syncer.SyncBase(ctx)
//	for page := range pages {
//		… // copy page.Kvs
//	}
//	if err := <-errs; err != nil {
//		… // what was copied is not all
//	}
//	for resp := range syncer.SyncUpdates(ctx) {
//		… // check resp.Err(), apply resp.Events
//	}
//
// The base and the updates together leave out nothing: the base is the state at one
// revision, and the updates begin with the next.
package mirror

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// Syncer delivers the keys of a cluster at one revision, and all changes since. It is
// safe for concurrent use.
type Syncer interface {
	// SyncBase reads all keys at the revision of the Syncer, in lexical order and
	// page by page. If the Syncer has no revision yet, it takes on the latest one,
	// before SyncBase returns.
	//
	// Both channels are closed when the last page has been delivered or something
	// has failed. Then the second one has the error, if there is one, and the pages
	// so far are not all: rpctypes.ErrCompacted if the revision was compacted
	// meanwhile, ctx.Err() if ctx has ended. Read the pages first, and then the
	// error: SyncBase is at most 16 pages ahead of its reader, of up to 4 MiB each or one key;
	// the first page has up to 256 keys.
	//
	// A reader that stops early must end ctx.
	SyncBase(ctx context.Context) (<-chan *clientv3.GetResponse, chan error)

	// SyncUpdates watches all changes since the revision of the Syncer. It panics if
	// there is none: call it after SyncBase, unless NewSyncer was given one. The
	// watch is as the client's [clientv3.Watcher] has it; it ends with
	// rpctypes.ErrCompacted if changes are gone that it has yet to deliver, and with a
	// *clientv3.ClusterChangedError if the cluster is another one or was restored from a
	// backup. Then the copy is of a history that is over: make a new one, by a new Syncer.
	//
	// After SyncBase has chosen the revision, SyncUpdates reads a key before it watches. With a revision
	// of NewSyncer it does not, and a restore that another call of the client has noticed goes unnoticed.
	SyncUpdates(ctx context.Context) clientv3.WatchChan
}

type syncer struct {
	client *clientv3.Client
	prefix string
	rev    atomic.Int64 // 0 until it is known

	cluster atomic.Uint64 // the ID of the cluster that SyncBase took rev from; 0 if rev is NewSyncer's
}

// NewSyncer returns a Syncer of the keys that begin with prefix, or of all keys if it
// is empty. rev is the revision of the base, which the updates come after. 0, or less,
// stands for the latest one when SyncBase is first called.
func NewSyncer(c *clientv3.Client, prefix string, rev int64) Syncer {
	s := &syncer{client: c, prefix: prefix}
	s.rev.Store(max(rev, 0))
	return s
}

func (s *syncer) SyncUpdates(ctx context.Context) clientv3.WatchChan {
	rev := s.rev.Load()
	if rev == 0 {
		panic("unexpected revision = 0. Calling SyncUpdates before SyncBase finishes?")
	}
	if changed := s.changed(ctx, rev); changed != nil {
		ended := make(chan clientv3.WatchResponse, 1)
		ended <- clientv3.WatchEnd(changed)
		close(ended)
		return ended
	}
	return s.client.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(rev+1))
}

// changed returns an error if the cluster was restored since the base was read. A watch does not notice a restore
// that another call of the client noticed before the watch began.
func (s *syncer) changed(ctx context.Context, rev int64) error {
	cluster := s.cluster.Load()
	if cluster == 0 {
		return nil
	}
	resp, err := s.readStart(ctx)
	if err == nil { // else the watch has the same trouble
		if c := lineage.Compare(lineage.Point{Cluster: cluster, Revision: rev}, resp.Header, true); c != nil {
			return (*clientv3.ClusterChangedError)(c)
		}
	}
	return nil
}

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
