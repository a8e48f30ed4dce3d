package clientv3_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
)

var errBroken = status.Error(codes.Unavailable, "connection reset by peer")

// streamingKV returns a KV over s that already streams.
func streamingKV(t *testing.T, s *rangeStore) KV {
	t.Helper()
	kv := NewKVFromKVClient(s, nil)
	script := s.onChunk
	s.onChunk = nil
	stream, err := kv.GetStream(t.Context(), "any")
	require.NoError(t, err)
	_, err = GetStreamToGetResponse(stream)
	require.NoError(t, err)
	s.onChunk, s.streams = script, nil
	return kv
}

// readStream reads a stream of s to its end, with a KV that has read one before.
func readStream(t *testing.T, s *rangeStore, key string, opts ...OpOption) (*pb.RangeResponse, error) {
	t.Helper()
	return readStreamOf(t, streamingKV(t, s), key, opts...)
}

// readStreamOf reads a stream to its end, checks what holds for every stream, and
// returns its sum.
func readStreamOf(t *testing.T, kv KV, key string, opts ...OpOption) (*pb.RangeResponse, error) {
	t.Helper()
	stream, err := kv.GetStream(t.Context(), key, opts...)
	require.NoError(t, err)
	copied := make(chan RangeStreamResponse, 1000)
	var last []byte
	finished := false
	for chunk := range stream {
		copied <- chunk
		require.False(t, finished, "nothing follows the last chunk")
		if chunk.Err() != nil {
			require.Nil(t, chunk.RangeResponse)
			finished = true
			continue
		}
		for _, kv := range chunk.Kvs {
			require.Positive(t, bytes.Compare(kv.Key, last), "keys are disjoint and ascend")
			last = kv.Key
		}
		finished = chunk.Header != nil
		if !finished {
			require.Zero(t, chunk.Count)
			require.False(t, chunk.More)
		}
	}
	require.True(t, finished, "a stream ends with a header or an error")
	close(copied)
	resp, err := GetStreamToGetResponse(GetStreamChan(copied))
	return (*pb.RangeResponse)(resp), err
}

func TestGetStreamResumes(t *testing.T) {
	const keys = 25
	requests := map[string][]OpOption{
		"prefix":              {WithPrefix()},
		"from key":            {WithFromKey()},
		"range":               {WithRange("k0020")},
		"keys only":           {WithPrefix(), WithKeysOnly()},
		"limit below a chunk": {WithPrefix(), WithLimit(11)},
		"limit on a chunk":    {WithPrefix(), WithLimit(12)},
		"limit one short":     {WithPrefix(), WithLimit(keys - 1)},
		"limit exact":         {WithPrefix(), WithLimit(keys)},
		"limit above":         {WithPrefix(), WithLimit(keys + 1)},
		"negative limit":      {WithPrefix(), WithLimit(-1)},
		"revision":            {WithPrefix(), WithRev(keys - 1)},
		"negative revision":   {WithPrefix(), WithRev(-1)},
		"serializable":        {WithPrefix(), WithSerializable()},
		"sorted as stored":    {WithPrefix(), WithSort(SortByKey, SortAscend)},
	}
	for name, opts := range requests {
		for _, late := range []bool{false, true} {
			for at := range keys/3 + 3 {
				t.Run(fmt.Sprintf("%s, header late %v, broken at %d", name, late, at), func(t *testing.T) {
					want, err := NewKVFromKVClient(newRangeStore(keys), nil).Get(t.Context(), "k", opts...)
					require.NoError(t, err)
					s := newRangeStore(keys)
					s.lateHeader = late
					s.onChunk = func(stream, chunk int) error {
						if stream > 0 || chunk != at {
							return nil
						}
						// The data must be that of the revision.
						s.put("k0000")
						s.put("k0007a")
						s.clear()
						return errBroken
					}
					got, err := readStream(t, s, "k", opts...)
					require.NoError(t, err)
					if OpGet("k", opts...).Rev() > 0 {
						// Then the header has the revision of the store, not that of the data.
						require.GreaterOrEqual(t, got.Header.Revision, want.Header.Revision)
						got.Header.Revision = want.Header.Revision
					}
					requireProto(t, (*pb.RangeResponse)(want), got)
				})
			}
		}
	}
}

func TestGetStreamResumesRepeatedly(t *testing.T) {
	s := newRangeStore(100)
	s.onChunk = func(stream, chunk int) error {
		s.put(fmt.Sprintf("k%04da", stream))
		if chunk == 1 { // every stream delivers one chunk
			return errBroken
		}
		return nil
	}
	got, err := readStream(t, s, "k", WithPrefix())
	require.NoError(t, err)
	require.Len(t, got.Kvs, 100)
	require.Equal(t, int64(100), got.Count)
	require.Equal(t, int64(100), got.Header.Revision)
	streams, ranges := s.sent()
	require.Len(t, streams, 34)
	require.Len(t, ranges, 1)
	requireProto(t, &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("k\x00"), CountOnly: true}, ranges[0])
	requireProto(t, &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Revision: 100}, streams[0])
	requireProto(t, &pb.RangeRequest{Key: []byte("k0002\x00"), RangeEnd: []byte("l"), Revision: 100}, streams[1])
}

func TestGetStreamWithoutPin(t *testing.T) {
	tests := map[string]struct {
		opts []OpOption
		want *pb.RangeRequest
	}{
		"one key":     {nil, &pb.RangeRequest{Key: []byte("k0003")}},
		"count":       {[]OpOption{WithPrefix(), WithCountOnly()}, &pb.RangeRequest{Key: []byte("k0003"), RangeEnd: []byte("k0004"), CountOnly: true}},
		"few keys":    {[]OpOption{WithFromKey(), WithLimit(10)}, &pb.RangeRequest{Key: []byte("k0003"), RangeEnd: []byte{0}, Limit: 10}},
		"at revision": {[]OpOption{WithFromKey(), WithRev(20)}, &pb.RangeRequest{Key: []byte("k0003"), RangeEnd: []byte{0}, Revision: 20}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newRangeStore(25)
			s.chunkKeys = 10
			want, err := NewKVFromKVClient(newRangeStore(25), nil).Get(t.Context(), "k0003", tt.opts...)
			require.NoError(t, err)
			s.onChunk = func(stream, chunk int) error {
				if stream == 0 && chunk == 0 {
					return errBroken
				}
				return nil
			}
			got, err := readStream(t, s, "k0003", tt.opts...)
			require.NoError(t, err)
			requireProto(t, (*pb.RangeResponse)(want), got)
			streams, ranges := s.sent()
			require.Empty(t, ranges, "no unnecessary round trip")
			require.Len(t, streams, 2)
			requireProto(t, tt.want, streams[1])
		})
	}
}

func TestGetStreamOverFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		keys    int // of the store; 0 for 25
		opts    []OpOption
		first   bool // whether it is the first stream of its KV
		onChunk func(s *rangeStore, stream, chunk int) error

		want     error
		wantKeys int
		wantRev  int64   // 0 for any
		streams  []int64 // their revisions; nil for any
		ranges   int     // -1 for any
	}{
		"a lagging member before the first chunk: a new revision is chosen": {
			opts: []OpOption{WithSerializable()},
			onChunk: func(s *rangeStore, stream, _ int) error {
				if stream < 2 {
					s.put("k0099")
					return rpctypes.ErrGRPCFutureRev
				}
				return nil
			},
			wantKeys: 26, wantRev: 27, ranges: 3,
		},
		"a lagging member after it: the stream waits for it": {
			opts: []OpOption{WithSerializable()},
			onChunk: func(_ *rangeStore, stream, chunk int) error {
				switch {
				case stream == 0 && chunk == 2:
					return errBroken
				case stream == 1 || stream == 2:
					return rpctypes.ErrGRPCFutureRev
				}
				return nil
			},
			wantKeys: 25, ranges: 1,
		},
		"a compaction before the first chunk: a new revision is chosen": {
			onChunk: func(s *rangeStore, stream, _ int) error {
				if stream == 0 {
					s.put("k0099")
					s.compact()
				}
				return nil
			},
			wantKeys: 26, wantRev: 26, ranges: -1,
		},
		"a compaction after it": {
			onChunk: func(s *rangeStore, stream, chunk int) error {
				if stream == 0 && chunk == 2 {
					s.put("k0099")
					s.compact()
					return errBroken
				}
				return nil
			},
			want: rpctypes.ErrCompacted, ranges: -1,
		},
		"a future revision of the caller's": {
			opts: []OpOption{WithRev(26)}, want: rpctypes.ErrFutureRev, streams: []int64{26},
		},
		"a compacted revision of the caller's": {
			opts:    []OpOption{WithRev(3)},
			onChunk: func(s *rangeStore, _, _ int) error { s.compact(); return nil },
			want:    rpctypes.ErrCompacted, streams: []int64{3},
		},
		"a definite error": {
			onChunk: failAt(2, rpctypes.ErrGRPCPermissionDenied), want: rpctypes.ErrPermissionDenied, ranges: 1,
		},
		"an error after the last chunk": {
			keys: 3, onChunk: failAt(1, status.Error(codes.Internal, "boom")), wantKeys: 3, ranges: 1,
		},
		"a proxy that cuts each stream short": {onChunk: failAt(2, io.EOF), wantKeys: 25, ranges: 1},
		"a limit of few keys: it cannot resume": {
			opts: []OpOption{WithLimit(10)}, onChunk: failAt(1, errBroken), want: errBroken, streams: []int64{0},
		},
		"a sort":   {opts: []OpOption{WithSort(SortByValue, SortDescend)}, want: errUnsupported, streams: []int64{0}},
		"a filter": {opts: []OpOption{WithMinModRev(3)}, want: errUnsupported, streams: []int64{0}},
		"the first, of many parts: it restarts at a revision": {
			first: true,
			onChunk: func(s *rangeStore, stream, chunk int) error {
				if stream == 1 && chunk == 2 {
					s.clear()
					return errBroken
				}
				return nil
			},
			wantKeys: 25, streams: []int64{0, 25, 25}, ranges: 1,
		},
		"the first, of one part: it costs one call": {first: true, keys: 3, wantKeys: 3, streams: []int64{0}},
		"the first, from a server that cannot: it costs one call": {
			first: true, onChunk: failAt(0, errUnknownMethod), want: errUnknownMethod, streams: []int64{0},
		},
		"the first, from a server that cannot, by pages": {
			first: true, opts: []OpOption{WithPageFallback()}, onChunk: failAt(0, errUnknownMethod),
			wantKeys: 25, streams: []int64{0}, ranges: -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRangeStore(cmp.Or(tt.keys, 25))
			if tt.onChunk != nil {
				s.onChunk = func(stream, chunk int) error { return tt.onChunk(s, stream, chunk) }
			}
			kv := NewKVFromKVClient(s, nil)
			if !tt.first {
				kv = streamingKV(t, s)
			}
			got, err := readStreamOf(t, kv, "k", append(tt.opts, WithPrefix())...)
			require.Equal(t, tt.want, err)
			require.Len(t, got.GetKvs(), tt.wantKeys)
			require.EqualValues(t, tt.wantKeys, got.GetCount())
			if tt.wantRev != 0 {
				require.Equal(t, tt.wantRev, got.Header.Revision)
			}
			streams, ranges := s.sent()
			if tt.streams != nil {
				var revs []int64
				for _, r := range streams {
					revs = append(revs, r.Revision)
				}
				require.Equal(t, tt.streams, revs)
			}
			if tt.ranges >= 0 {
				require.Len(t, ranges, tt.ranges)
			}
		})
	}
}

// failAt breaks each stream at a chunk.
func failAt(chunk int, err error) func(*rangeStore, int, int) error {
	return func(_ *rangeStore, _, c int) error {
		if c == chunk {
			return err
		}
		return nil
	}
}

// etcd checks once more after the last chunk whether the user may read.
func TestGetStreamThatIsRefusedAfterTheLastChunk(t *testing.T) {
	s := newRangeStore(3)
	kv := streamingKV(t, s)
	s.onChunk = func(_, chunk int) error { return failAt(1, rpctypes.ErrGRPCPermissionDenied)(s, 0, chunk) }
	stream, err := kv.GetStream(t.Context(), "k", WithPrefix())
	require.NoError(t, err)
	_, err = GetStreamToGetResponse(stream)
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
}

func TestGetStreamThatCannotBegin(t *testing.T) {
	_, err := readStream(t, newRangeStore(1), "")
	require.Equal(t, rpctypes.ErrEmptyKey, err, "%v", err)

	s := newRangeStore(25)
	s.onRange = func(int, *pb.RangeRequest) error { return errBroken }
	_, err = readStream(t, s, "k", WithPrefix())
	require.Equal(t, errBroken, err, "while it chooses the revision")
	_, ranges := s.sent()
	require.Len(t, ranges, 1, "unary calls are repeated by the transport, not here")
}

// headless answers gets without a header, as clients of programs may.
type headless struct{ *rangeStore }

func (h headless) Range(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	resp, err := h.rangeStore.Range(ctx, req)
	if err == nil {
		resp.Header = nil
	}
	return resp, err
}

func TestGetStreamWithoutARevision(t *testing.T) {
	_, err := readStreamOf(t, NewKVFromKVClient(headless{newRangeStore(25)}, nil), "k", WithPrefix())
	require.ErrorContains(t, err, "no revision")
}

func TestGetStreamOfAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newRangeStore(25)
	stream, err := NewKVFromKVClient(s, nil).GetStream(ctx, "k", WithPrefix())
	require.Nil(t, stream)
	require.Equal(t, context.Canceled, err)
	streams, ranges := s.sent()
	require.Empty(t, streams)
	require.Empty(t, ranges)
}

func TestGetStreamIsCanceledBeforeTheLastChunkIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		// Two chunks: one waits in the channel, the last one behind it.
		stream, err := NewKVFromKVClient(newRangeStore(6), nil).GetStream(ctx, "k", WithPrefix())
		require.NoError(t, err)
		synctest.Wait()
		cancel()
		synctest.Wait()
		_, err = GetStreamToGetResponse(stream)
		require.Equal(t, context.Canceled, err, "half a range is not a result: %v", err)
	})
}

// A stream that is read no further ends with its context or its client, and a later reader receives the reason.
func TestAbandonedGetStream(t *testing.T) {
	for name, closes := range map[string]bool{"its context ends": false, "its client is closed": true} {
		t.Run(name, func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := NewCtxClient(context.Background())
			kv := NewKVFromKVClient(newRangeStore(25), c)
			stream, err := kv.GetStream(ctx, "k", WithPrefix())
			require.NoError(t, err)
			<-stream
			if closes {
				require.ErrorIs(t, c.Close(), context.Canceled)
			} else {
				cancel()
			}
			goleak.VerifyNone(t, leaks) // although the rest is unread
			var last error
			for chunk := range stream {
				require.NoError(t, last)
				last = chunk.Err()
			}
			require.True(t, IsConnCanceled(last), "%v", last)
			_, err = kv.GetStream(ctx, "k", WithPrefix())
			require.True(t, IsConnCanceled(err), "%v", err)
		})
	}
}
