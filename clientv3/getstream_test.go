package clientv3_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
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
					if OpGet("k", opts...).Rev() != 0 {
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
	requireProto(t, &pb.RangeRequest{Key: []byte("k"), CountOnly: true}, ranges[0])
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

func TestFirstGetStreamOfAKV(t *testing.T) {
	t.Run("of many parts restarts at a revision", func(t *testing.T) {
		s := newRangeStore(25)
		s.onChunk = func(stream, chunk int) error {
			if stream == 1 && chunk == 2 {
				s.clear()
				return errBroken
			}
			return nil
		}
		got, err := readStreamOf(t, NewKVFromKVClient(s, nil), "k", WithPrefix())
		require.NoError(t, err)
		require.Len(t, got.Kvs, 25)
		streams, ranges := s.sent()
		require.Len(t, ranges, 1)
		require.Len(t, streams, 3)
		require.Equal(t, []int64{0, 25, 25}, []int64{streams[0].Revision, streams[1].Revision, streams[2].Revision})
	})
	t.Run("of one part costs one call", func(t *testing.T) {
		s := newRangeStore(3)
		got, err := readStreamOf(t, NewKVFromKVClient(s, nil), "k", WithPrefix())
		require.NoError(t, err)
		require.Len(t, got.Kvs, 3)
		streams, ranges := s.sent()
		require.Len(t, streams, 1)
		require.Empty(t, ranges)
	})
	t.Run("from a server that cannot costs one call", func(t *testing.T) {
		s := oldStore(25)
		_, err := readStreamOf(t, NewKVFromKVClient(s, nil), "k", WithPrefix())
		require.Equal(t, codes.Unimplemented, status.Code(err), "%v", err)
		streams, ranges := s.sent()
		require.Len(t, streams, 1)
		require.Empty(t, ranges)
	})
	t.Run("from a server that cannot, by pages", func(t *testing.T) {
		s := oldStore(25)
		got, err := readStreamOf(t, NewKVFromKVClient(s, nil), "k", WithPrefix(), WithPageFallback())
		require.NoError(t, err)
		require.Len(t, got.Kvs, 25)
		streams, _ := s.sent()
		require.Len(t, streams, 1)
	})
}

func TestGetStreamThatCannotResume(t *testing.T) {
	s := newRangeStore(25) // has even ten keys
	s.onChunk = func(_, chunk int) error {
		if chunk == 1 {
			return errBroken
		}
		return nil
	}
	got, err := readStream(t, s, "k", WithPrefix(), WithLimit(10))
	require.Nil(t, got)
	require.Equal(t, codes.Unavailable, status.Code(err))
	streams, _ := s.sent()
	require.Len(t, streams, 1)
}

func TestGetStreamSurvivesALaggingMember(t *testing.T) {
	t.Run("before the first chunk a new revision is chosen", func(t *testing.T) {
		s := newRangeStore(25)
		s.onChunk = func(stream, _ int) error {
			if stream < 2 {
				s.put("k0099")
				return rpctypes.ErrGRPCFutureRev
			}
			return nil
		}
		got, err := readStream(t, s, "k", WithPrefix(), WithSerializable())
		require.NoError(t, err)
		require.Equal(t, int64(27), got.Header.Revision)
		require.Equal(t, int64(26), got.Count)
		_, ranges := s.sent()
		require.Len(t, ranges, 3)
		require.True(t, ranges[2].Serializable)
	})
	t.Run("after it the stream waits for the member", func(t *testing.T) {
		s := newRangeStore(25)
		s.onChunk = func(stream, chunk int) error {
			switch {
			case stream == 0 && chunk == 2:
				return errBroken
			case stream == 1 || stream == 2:
				return rpctypes.ErrGRPCFutureRev
			}
			return nil
		}
		got, err := readStream(t, s, "k", WithPrefix(), WithSerializable())
		require.NoError(t, err)
		require.Equal(t, int64(25), got.Count)
		_, ranges := s.sent()
		require.Len(t, ranges, 1)
	})
	t.Run("a revision of the caller's own is reported", func(t *testing.T) {
		s := newRangeStore(25)
		_, err := readStream(t, s, "k", WithPrefix(), WithRev(26))
		require.Equal(t, rpctypes.ErrFutureRev, err, "%v", err)
		streams, _ := s.sent()
		require.Len(t, streams, 1)
	})
}

func TestGetStreamAndCompaction(t *testing.T) {
	t.Run("before the first chunk a new revision is chosen", func(t *testing.T) {
		s := newRangeStore(25)
		s.onChunk = func(stream, _ int) error {
			if stream == 0 {
				s.put("k0099")
				s.compact()
			}
			return nil
		}
		got, err := readStream(t, s, "k", WithPrefix())
		require.NoError(t, err)
		require.Equal(t, int64(26), got.Header.Revision)
	})
	t.Run("after it the stream fails", func(t *testing.T) {
		s := newRangeStore(25)
		s.onChunk = func(stream, chunk int) error {
			if stream == 0 && chunk == 2 {
				s.put("k0099")
				s.compact()
				return errBroken
			}
			return nil
		}
		_, err := readStream(t, s, "k", WithPrefix())
		require.Equal(t, rpctypes.ErrCompacted, err, "%v", err)
	})
	t.Run("a revision of the caller's own is reported", func(t *testing.T) {
		s := newRangeStore(25)
		s.compact()
		_, err := readStream(t, s, "k", WithPrefix(), WithRev(3))
		require.Equal(t, rpctypes.ErrCompacted, err, "%v", err)
	})
}

func TestGetStreamErrors(t *testing.T) {
	internal := status.Error(codes.Internal, "boom")
	t.Run("definite", func(t *testing.T) {
		s := newRangeStore(25)
		s.onChunk = func(_, chunk int) error {
			if chunk == 2 {
				return rpctypes.ErrGRPCPermissionDenied
			}
			return nil
		}
		_, err := readStream(t, s, "k", WithPrefix())
		require.Equal(t, rpctypes.ErrPermissionDenied, err, "%v", err)
	})
	t.Run("empty key", func(t *testing.T) {
		_, err := readStream(t, newRangeStore(1), "")
		require.Equal(t, rpctypes.ErrEmptyKey, err, "%v", err)
	})
	t.Run("while choosing the revision", func(t *testing.T) {
		s := newRangeStore(25)
		s.onRange = func(int, *pb.RangeRequest) error { return errBroken }
		_, err := readStream(t, s, "k", WithPrefix())
		require.Equal(t, errBroken, err)
		_, ranges := s.sent()
		require.Len(t, ranges, 1, "unary calls are repeated by the transport, not here")
	})
	t.Run("after the last chunk", func(t *testing.T) {
		s := newRangeStore(3)
		s.onChunk = func(_, chunk int) error {
			if chunk == 1 {
				return internal
			}
			return nil
		}
		got, err := readStream(t, s, "k", WithPrefix())
		require.NoError(t, err, "all keys were delivered")
		require.Len(t, got.Kvs, 3)
	})
}

func TestGetStreamKeepsUnimplemented(t *testing.T) {
	for name, opt := range map[string]OpOption{
		"sort":   WithSort(SortByValue, SortDescend),
		"filter": WithMinModRev(3),
	} {
		s := newRangeStore(25)
		_, err := readStream(t, s, "k", WithPrefix(), opt)
		require.Equal(t, codes.Unimplemented, status.Code(err), name)
		streams, ranges := s.sent()
		require.Len(t, streams, 1, name)
		require.Empty(t, ranges, name)
	}
}

func TestGetStreamToGetResponseStopsAtAnError(t *testing.T) {
	s := newRangeStore(25)
	s.onChunk = func(int, int) error { return rpctypes.ErrGRPCNoSpace }
	stream, err := NewKVFromKVClient(s, nil).GetStream(t.Context(), "k", WithPrefix())
	require.NoError(t, err)
	resp, err := GetStreamToGetResponse(stream)
	require.Nil(t, resp)
	require.Equal(t, rpctypes.ErrNoSpace, err)
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

func TestAbandonedGetStream(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := NewKVFromKVClient(newRangeStore(25), nil).GetStream(ctx, "k", WithPrefix())
	require.NoError(t, err)
	<-stream
	cancel()
	goleak.VerifyNone(t, leaks) // although the rest is unread

	// A later reader receives the reason of the end.
	var last error
	for chunk := range stream {
		require.NoError(t, last)
		last = chunk.Err()
	}
	require.Equal(t, context.Canceled, last, "%v", last)
}

func TestGetStreamDeadlineBeforeTheLastChunkIsRead(t *testing.T) {
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

func TestGetStreamPastItsDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s := newRangeStore(25)
	s.onChunk = func(_, chunk int) error {
		if chunk == 2 {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		return nil
	}
	stream, err := NewKVFromKVClient(s, nil).GetStream(ctx, "k", WithPrefix())
	require.NoError(t, err)
	_, err = GetStreamToGetResponse(stream)
	require.Equal(t, context.DeadlineExceeded, err, "%v", err)
}

func TestGetStreamOfAClosedClient(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	c := NewCtxClient(context.Background())
	stream, err := NewKVFromKVClient(newRangeStore(25), c).GetStream(t.Context(), "k", WithPrefix())
	require.NoError(t, err)
	<-stream
	require.ErrorIs(t, c.Close(), context.Canceled)
	goleak.VerifyNone(t, leaks)

	var last error
	for chunk := range stream {
		last = chunk.Err()
	}
	require.True(t, IsConnCanceled(last), "%v", last)

	_, err = NewKVFromKVClient(newRangeStore(25), c).GetStream(t.Context(), "k", WithPrefix())
	require.True(t, IsConnCanceled(err), "%v", err)
}
