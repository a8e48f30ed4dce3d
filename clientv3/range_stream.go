package clientv3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/channel"
)

// GetStreamChan delivers the chunks of [KV.GetStream] and is closed after the last.
//
// A reader that stops before the channel is closed must cancel the context of the
// call: until then, or until the client is closed, the stream stays open.
type GetStreamChan <-chan RangeStreamResponse

// RangeStreamResponse is one chunk of a streamed range. Each chunk continues in
// lexical order where the previous one ended. Header, More and Count are set only on
// the last chunk, with the values of a [KV.Get] response.
//
// If the stream fails, the last value has a nil RangeResponse and a non-nil Err.
type RangeStreamResponse struct {
	*pb.RangeResponse
	closeErr error
}

// Err returns the error that ended the stream, nil for a chunk.
func (r *RangeStreamResponse) Err() error { return r.closeErr }

// GetStreamToGetResponse reads a stream to its end and returns what [KV.Get] would
// have returned, or the error that ended the stream.
func GetStreamToGetResponse(stream GetStreamChan) (*GetResponse, error) {
	resp := &GetResponse{}
	for chunk := range stream {
		if err := chunk.Err(); err != nil {
			return nil, err
		}
		resp.Kvs = append(resp.Kvs, chunk.GetKvs()...)
		if header := chunk.GetHeader(); header != nil {
			resp.Header = header
		}
		resp.More = resp.More || chunk.GetMore()
		if count := chunk.GetCount(); count != 0 {
			resp.Count = count
		}
	}
	return resp, nil
}

func (kv *kv) GetStream(ctx context.Context, key string, opts ...OpOption) (GetStreamChan, error) {
	op := OpGet(key, opts...)
	if err := kv.ended(ctx); err != nil {
		return nil, err
	}
	s := &rangeStream{
		kv:      kv,
		ctx:     ctx,
		cursor:  rangeCursor{op: op},
		retrier: kv.client.retrier(pb.KV_RangeStream_FullMethodName),
		out:     make(chan RangeStreamResponse, 1),
	}
	s.remote = over(kv.client, s.retrier, kv.remote, pb.NewKVClient)
	go s.run()
	return s.out, nil
}

// rangeStream executes one GetStream on its own goroutine.
type rangeStream struct {
	kv      *kv
	ctx     context.Context // the caller's
	cursor  rangeCursor
	retrier *channel.Retrier
	remote  pb.KVClient // whose streams are opened over the retrier
	// out has room for one value, see fail.
	out chan RangeStreamResponse

	// pageKeys is the number of keys in the next page, 0 unless the server does not know the RangeStream method.
	pageKeys int64
	// unary says that the current read consists of unary calls. The channel retries
	// those, so their errors are final; it does not retry streams.
	unary bool
	// done is set when the reader has received the last part.
	done bool
}

func (s *rangeStream) run() {
	defer close(s.out)
	ctx, cancel := s.kv.whileOpen(s.ctx)
	defer cancel()
	for {
		err := s.read(ctx)
		if !s.done && err != nil {
			if err = s.recover(ctx, err); err == nil {
				continue
			}
			s.fail(ctx, err)
		} else if isServerError(rpctypes.Error(err)) {
			// After the last part only a server error matters: etcd then checks the
			// caller's permission once more.
			s.fail(ctx, err)
		}
		return
	}
}

// read delivers the rest of the range, or as much of it as it can.
func (s *rangeStream) read(ctx context.Context) error {
	s.unary = true
	if s.cursor.needsPin() && (s.kv.streams.Load() || s.pageKeys > 0) {
		resp, err := s.kv.remote.Range(ctx, s.cursor.pinRequest(), s.kv.callOpts...)
		if err != nil {
			return err
		}
		if s.cursor.pin = resp.GetHeader().GetRevision(); s.cursor.pin == 0 {
			return errors.New("the response to a get has no revision")
		}
	}
	if s.pageKeys > 0 {
		return s.readPages(ctx)
	}
	s.unary = false
	return s.readStream(ctx)
}

// errCutShort reports a stream that ended before its last part. A server sends a last
// part, with the header, even for an empty range, so a proxy must have cut the stream
// off. Resuming after the delivered keys finds the rest, if there is any.
var errCutShort = status.Error(codes.Unavailable, "the range stream ended before its last part")

// errUnpinned ends the first stream of a KV if it has more than one part: the server
// is now known to stream, so a revision is chosen and the stream starts again.
// Choosing it earlier would cost a useless call on servers that do not stream, and a
// program's own client may not support that call.
var errUnpinned = errors.New("the range has several parts and no revision")

func (s *rangeStream) readStream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.remote.RangeStream(ctx, s.cursor.request(), s.kv.callOpts...)
	if err != nil {
		return err
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if !s.done {
				return errCutShort
			}
			return nil
		}
		if err != nil {
			return err
		}
		s.kv.streams.Store(true)
		part := resp.GetRangeResponse()
		if s.cursor.needsPin() && part.GetHeader() == nil {
			return errUnpinned
		}
		if err := s.deliver(ctx, part, part.GetHeader() != nil); err != nil {
			return err
		}
	}
}

// recover decides how to proceed after an error: nil means another read.
func (s *rangeStream) recover(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errUnpinned):
		return nil
	case s.mayReadPages() && (status.Code(err) == codes.Unimplemented || isTooLarge(err)):
		s.pageKeys = s.cursor.op.pageKeys
		return nil
	case !s.cursor.resumable():
		return err
	case s.transient(err):
		return s.retrier.Pause(ctx, err)
	case s.unary:
		return err
	default:
		return s.retrier.Next(ctx, err)
	}
}

// mayReadPages reports whether the rest of a stream can be read page by page.
func (s *rangeStream) mayReadPages() bool {
	return s.pageKeys == 0 && s.cursor.op.pageKeys > 0 && s.cursor.plain() && s.cursor.resumable()
}

// transient reports whether err means that this revision cannot be read now, and
// another read may succeed.
func (s *rangeStream) transient(err error) bool {
	known := rpctypes.Error(err)
	switch {
	case errors.Is(known, rpctypes.ErrFutureRev):
		// This member lags behind the previous one. It will catch up, or another
		// member serves the next read.
		return s.cursor.unpin() || s.cursor.delivered > 0
	case errors.Is(known, rpctypes.ErrCompacted):
		// Compacted between choosing the revision and reading at it.
		return s.cursor.unpin()
	default:
		return false
	}
}

// deliver sends a part of the range to the reader.
func (s *rangeStream) deliver(ctx context.Context, part *pb.RangeResponse, last bool) error {
	s.retrier.Progress()
	if err := s.send(ctx, RangeStreamResponse{RangeResponse: s.cursor.advance(part, last)}); err != nil {
		return err
	}
	s.done = last
	return nil
}

func (s *rangeStream) send(ctx context.Context, r RangeStreamResponse) error {
	select {
	case s.out <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail sends the final error to the reader. Once the context has ended it does not
// wait for the reader: the error replaces an unread chunk.
func (s *rangeStream) fail(ctx context.Context, err error) {
	last := RangeStreamResponse{closeErr: ContextError(s.ctx, err)}
	if s.send(ctx, last) == nil {
		return
	}
	select {
	case <-s.out:
	default:
	}
	s.out <- last
}

// ended returns an error if ctx has ended or the client is closed.
func (kv *kv) ended(ctx context.Context) error {
	if kv.client.Ctx().Err() != nil {
		return channel.ErrClosed
	}
	return ctx.Err()
}

// whileOpen returns a context that ends with ctx, and when the client is closed.
func (kv *kv) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(kv.client.Ctx(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

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

// needsPin reports whether a revision must be chosen before reading, so that the
// read can resume.
func (c *rangeCursor) needsPin() bool {
	onePart := c.op.countOnly || len(c.op.end) == 0 || c.op.limit > 0 && c.op.limit <= firstChunkKeys
	return c.op.rev <= 0 && c.pin == 0 && c.plain() && !onePart
}

// pinRequest returns the request whose response header gives the revision to read
// at. It counts one key, not the range, which the server would have to walk.
// Permission for the range includes its first key.
func (c *rangeCursor) pinRequest() *pb.RangeRequest {
	return &pb.RangeRequest{Key: c.op.key, RangeEnd: keyAfter(c.op.key), CountOnly: true, Serializable: c.op.serializable}
}

// resumable reports whether the read can resume after the delivered keys.
func (c *rangeCursor) resumable() bool {
	return c.delivered == 0 || (c.plain() && (c.pin != 0 || c.op.rev > 0))
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
