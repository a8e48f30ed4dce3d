package clientv3

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// The sizes of pages that are read from a server that cannot stream. The server
// counts the whole rest of the range for every page, so pages should be large; it
// holds a page in memory, so they should not be too large.
const (
	firstPageKeys  = 100
	maxPageKeys    = 1000
	smallPageBytes = 1 << 20
	largePageBytes = 4 << 20
)

// errNoProgress keeps a range from being read forever, or from looking complete.
var errNoProgress = errors.New("etcdclient: the server says that more keys follow, and returned none")

// rangePages sizes the pages of one range.
type rangePages struct{ keys int64 }

func newRangePages() *rangePages { return &rangePages{keys: firstPageKeys} }

// limit returns the number of keys in the next page of a range limited to want keys,
// 0 for no limit.
func (p *rangePages) limit(want int64) int64 {
	if want > 0 {
		return min(p.keys, want)
	}
	return p.keys
}

// adapt changes the size of the next page according to the bytes of a full one.
func (p *rangePages) adapt(bytes int) {
	switch {
	case bytes < smallPageBytes:
		p.keys = min(2*p.keys, maxPageKeys)
	case bytes > largePageBytes:
		p.keys = max(p.keys/2, 1)
	}
}

func (s *rangeStream) readPages(ctx context.Context) error {
	for !s.done {
		req := s.cursor.request()
		if !req.CountOnly {
			req.Limit = s.pages.limit(req.Limit)
		}
		page, err := s.kv.remote.Range(ctx, req, s.kv.callOpts...)
		if err != nil {
			return err
		}
		last := s.isLastPage(page)
		if !last && len(page.GetKvs()) == 0 {
			return errNoProgress
		}
		s.pages.adapt(proto.Size(page))
		if err := s.deliver(ctx, page, last); err != nil {
			return err
		}
	}
	return nil
}

// isLastPage reports whether no page follows, or none that the caller wants.
func (s *rangeStream) isLastPage(page *pb.RangeResponse) bool {
	c := &s.cursor
	wanted := c.op.limit <= 0 || c.delivered+int64(len(page.GetKvs())) < c.op.limit
	return !page.GetMore() || !wanted
}
