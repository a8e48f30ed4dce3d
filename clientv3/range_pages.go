package clientv3

import (
	"context"
	"errors"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// nextPageKeys returns the number of keys in the page after a full one of so many keys and bytes.
func nextPageKeys(keys int64, bytes int) int64 {
	switch {
	case bytes < smallPageBytes:
		return min(2*keys, maxPageKeys)
	case bytes > largePageBytes:
		return max(keys*largePageBytes/2/int64(bytes), 1)
	default:
		return keys
	}
}

// isTooLarge reports whether a page was over the limit of gRPC for a message, at this side (MaxCallRecvMsgSize) or the other.
func isTooLarge(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}

// fewerKeys returns the number of keys to read in place of a page that is too large.
func fewerKeys(keys int64) int64 { return (keys + 3) / 4 }

func (s *rangeStream) readPages(ctx context.Context) error {
	for !s.done {
		req := s.cursor.request()
		if !req.CountOnly && (req.Limit <= 0 || req.Limit > s.pageKeys) {
			req.Limit = s.pageKeys
		}
		page, err := s.kv.remote.Range(ctx, req, s.kv.callOpts...)
		if isTooLarge(err) && req.Limit > 1 {
			s.pageKeys = fewerKeys(req.Limit)
			continue
		}
		if err != nil {
			return err
		}
		last := s.isLastPage(page)
		if !last && len(page.GetKvs()) == 0 {
			return errNoProgress
		}
		s.pageKeys = nextPageKeys(s.pageKeys, proto.Size(page))
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
