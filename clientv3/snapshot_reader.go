package clientv3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// snapshotReader reads a snapshot stream. It has no goroutine: a read that finds
// the buffer empty receives the next message, and flow control stops the server in
// between.
type snapshotReader struct {
	ctx       context.Context // the caller's
	streamCtx context.Context // derives from it
	cancel    context.CancelFunc
	stream    pb.Maintenance_SnapshotClient

	// mu guards what follows: one read at a time.
	mu     sync.Mutex
	left   []byte // received and not yet read
	digest digestCheck
	err    error // the result of every read from now on
}

func (r *snapshotReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if err := r.ended(); err != nil {
			return 0, err
		}
		if len(r.left) > 0 || len(p) == 0 {
			n := copy(p, r.left)
			r.left = r.left[n:]
			return n, nil
		}
		r.accept(r.stream.Recv())
	}
}

// ended returns the error of further reads, nil while there may be more data.
func (r *snapshotReader) ended() error {
	switch {
	case r.err != nil:
	case r.ctx.Err() != nil:
		r.err = r.ctx.Err()
	case r.streamCtx.Err() != nil:
		r.err = io.ErrClosedPipe
	}
	return r.err
}

// accept processes a message of the stream, or the error that ends it.
func (r *snapshotReader) accept(msg *pb.SnapshotResponse, err error) {
	switch {
	case err == nil:
		r.left = msg.GetBlob()
		r.digest.add(r.left)
		return
	case errors.Is(err, io.EOF):
		r.err = r.digest.result()
	case r.ended() == nil:
		r.err = ContextError(r.ctx, err)
	}
	r.cancel()
}

// Close ends the stream. It is safe to call at any time and more than once.
func (r *snapshotReader) Close() error {
	r.cancel()
	return nil
}

// digestCheck hashes a stream that ends with the SHA-256 digest of all that comes
// before. The last bytes received may be the digest, so they are not hashed yet.
type digestCheck struct {
	sum  hash.Hash
	tail []byte // at most sha256.Size bytes
}

func (d *digestCheck) add(p []byte) {
	d.tail = append(d.tail, p...)
	body := max(len(d.tail)-sha256.Size, 0)
	d.sum.Write(d.tail[:body])
	d.tail = append(d.tail[:0], d.tail[body:]...)
}

// result returns io.EOF if the stream ended with its digest.
func (d *digestCheck) result() error {
	if len(d.tail) != sha256.Size || !bytes.Equal(d.sum.Sum(nil), d.tail) {
		return ErrSnapshotDigest
	}
	return io.EOF
}
