package clientv3

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/channel"
)

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
		s.cursor.pin = resp.GetHeader().GetRevision()
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
