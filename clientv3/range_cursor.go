package clientv3

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// firstChunkKeys is the number of keys in the first chunk that etcd streams. A range
// limited to that many arrives as one chunk.
const firstChunkKeys = 10

// rangeCursor is the position of a range that is read in parts, possibly by several
// requests. Together the parts equal the response to one request.
type rangeCursor struct {
	op Op

	// pin is the revision at which all parts are read, 0 while none is chosen. The
	// cursor chooses one if the caller did not.
	pin int64

	after     []byte // the last key delivered, nil before the first
	delivered int64  // keys delivered
	base      int64  // keys delivered when the current request was made
}

// plain reports whether the keys arrive in lexical order without gaps: only then
// can the read resume after the last key.
func (c *rangeCursor) plain() bool {
	op := &c.op
	sorted := op.sort != nil && (op.sort.Target != SortByKey || op.sort.Order != SortNone)
	filtered := op.minModRev != 0 || op.maxModRev != 0 || op.minCreateRev != 0 || op.maxCreateRev != 0
	return !sorted && !filtered
}

// onePart reports whether the whole range arrives in one part.
func (c *rangeCursor) onePart() bool {
	op := &c.op
	return op.countOnly || len(op.end) == 0 || (op.limit > 0 && op.limit <= firstChunkKeys)
}

// needsPin reports whether a revision must be chosen before reading, so that the
// read can resume.
func (c *rangeCursor) needsPin() bool {
	return c.op.rev == 0 && c.pin == 0 && c.plain() && !c.onePart()
}

// pinRequest returns the request whose response header gives the revision to read
// at. It counts one key, not the range, which the server would have to walk.
// Permission for the range includes its first key.
func (c *rangeCursor) pinRequest() *pb.RangeRequest {
	return &pb.RangeRequest{Key: c.op.key, RangeEnd: keyAfter(c.op.key), CountOnly: true, Serializable: c.op.serializable}
}

// resumable reports whether the read can resume after the delivered keys.
func (c *rangeCursor) resumable() bool {
	return c.delivered == 0 || (c.plain() && (c.pin != 0 || c.op.rev != 0))
}

// unpin drops the chosen revision, so that another one can be chosen. It returns
// false if the caller chose the revision, or keys have been delivered at it.
func (c *rangeCursor) unpin() bool {
	if c.pin == 0 || c.delivered > 0 {
		return false
	}
	c.pin = 0
	return true
}

// request returns the request for the rest of the range.
func (c *rangeCursor) request() *pb.RangeRequest {
	c.base = c.delivered
	r := c.op.toRangeRequest()
	if c.pin != 0 {
		r.Revision = c.pin
	}
	if c.after == nil {
		return r
	}
	r.Key = keyAfter(c.after)
	if c.op.limit > 0 {
		r.Limit = c.op.limit - c.delivered
		if c.exhausted() {
			r.Limit, r.CountOnly = 0, true
		}
	}
	return r
}

// keyAfter returns the first key that is greater.
func keyAfter(key []byte) []byte { return append(bytes.Clone(key), 0) }

// exhausted reports whether the caller's limit is reached. Then only the number of
// further keys is missing.
func (c *rangeCursor) exhausted() bool {
	return c.op.limit > 0 && c.delivered >= c.op.limit
}

// advance processes a part of the response to the current request and returns the
// chunk for the caller. last says that it is the last part of the range.
func (c *rangeCursor) advance(part *pb.RangeResponse, last bool) *pb.RangeResponse {
	chunk := &pb.RangeResponse{Kvs: part.GetKvs()}
	if last {
		chunk.Header = part.GetHeader()
		if chunk.Header != nil && c.pin != 0 {
			// Without a revision in the request, the header's is that of the data.
			chunk.Header.Revision = c.pin
		}
		chunk.Count = c.base + part.GetCount()
		chunk.More = part.GetMore() || (c.exhausted() && chunk.Count > c.delivered)
	}
	if n := len(chunk.Kvs); n > 0 {
		c.after = bytes.Clone(chunk.Kvs[n-1].GetKey()) // the reader owns the chunk
		c.delivered += int64(n)
	}
	return chunk
}
