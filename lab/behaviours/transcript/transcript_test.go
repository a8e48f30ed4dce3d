package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// one records a single step.
func one(t *testing.T, step func(*transcript.Log)) transcript.Entry {
	t.Helper()
	entries, err := transcript.Record("s", step)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	return entries[0]
}

func value(t *testing.T, v any) string {
	t.Helper()
	return one(t, func(log *transcript.Log) { log.Value("v", v) }).Result
}

func failure(t *testing.T, err error) string {
	t.Helper()
	return one(t, func(log *transcript.Log) { log.Error("e", err) }).Error
}

func TestValuesThatDiffer(t *testing.T) {
	response := func(change func(*pb.RangeResponse)) *pb.RangeResponse {
		r := &pb.RangeResponse{
			Header: &pb.ResponseHeader{Revision: 5, ClusterId: 1},
			Kvs:    []*mvccpb.KeyValue{{Key: []byte("k"), Value: []byte("v"), ModRevision: 4}},
			Count:  1,
		}
		change(r)
		return r
	}
	same := value(t, response(func(*pb.RangeResponse) {}))
	for name, change := range map[string]func(*pb.RangeResponse){
		"revision": func(r *pb.RangeResponse) { r.Header.Revision = 6 },
		"no id":    func(r *pb.RangeResponse) { r.Header.ClusterId = 0 },
		"header":   func(r *pb.RangeResponse) { r.Header = nil },
		"key":      func(r *pb.RangeResponse) { r.Kvs[0].Key = []byte("K") },
		"value":    func(r *pb.RangeResponse) { r.Kvs[0].Value = []byte(strings.Repeat("v", 1000)) },
		"nested":   func(r *pb.RangeResponse) { r.Kvs[0].ModRevision = 5 },
		"leased":   func(r *pb.RangeResponse) { r.Kvs[0].Lease = 1 },
		"longer":   func(r *pb.RangeResponse) { r.Kvs = append(r.Kvs, r.Kvs[0]) },
		"nil list": func(r *pb.RangeResponse) { r.Kvs = nil },
		"empty":    func(r *pb.RangeResponse) { r.Kvs = []*mvccpb.KeyValue{} },
		"flag":     func(r *pb.RangeResponse) { r.More = true },
	} {
		assert.NotEqual(t, same, value(t, response(change)), name)
	}
	assert.Equal(t, same, value(t, response(func(r *pb.RangeResponse) { r.Header.ClusterId = 2 })), "ids vary by nature")

	assert.NotEqual(t, value(t, []string(nil)), value(t, []string{}))
	assert.NotEqual(t, value(t, int64(1)), value(t, 1), "types count")
	assert.NotEqual(t, value(t, strings.Repeat("a", 1000)), value(t, strings.Repeat("a", 999)+"b"))
	assert.NotEqual(t, value(t, (*pb.RangeResponse)(nil)), value(t, &pb.RangeResponse{}))
	assert.Equal(t, value(t, map[string]int{"a": 1, "b": 2}), value(t, map[string]int{"b": 2, "a": 1}))
}

func TestErrorsThatDiffer(t *testing.T) {
	descriptions := make(map[string]error)
	for _, err := range []error{
		nil,
		io.EOF,
		context.Canceled,
		context.DeadlineExceeded,
		errors.New("context canceled"),
		fmt.Errorf("%w", context.Canceled),
		status.Error(codes.Canceled, "context canceled"),
		rpctypes.ErrCompacted,
		rpctypes.ErrGRPCCompacted,
		fmt.Errorf("%w", rpctypes.ErrCompacted),
		rpctypes.ErrFutureRev,
		errors.New(rpctypes.ErrCompacted.Error()),
		status.Error(codes.Unavailable, "x"),
		status.Error(codes.Internal, "x"),
	} {
		text := failure(t, err)
		assert.NotContains(t, descriptions, text, "%v is described like %v", err, descriptions[text])
		descriptions[text] = err
	}
	assert.Empty(t, failure(t, nil))
	assert.Contains(t, failure(t, rpctypes.ErrCompacted), "== its variable")
}

func TestSteps(t *testing.T) {
	entries, err := transcript.Record("behaviour", func(log *transcript.Log) {
		log.Alias("127.0.0.1:1234", "m1")
		log.Step("call")("at 127.0.0.1:1234", errors.New("dial 127.0.0.1:1234"))
		log.Panic("panics", func() { panic("reason") })
		log.Panic("does not", func() {})
	})
	require.NoError(t, err)
	require.Len(t, entries, 3)
	assert.Equal(t, "behaviour: call", entries[0].Step)
	assert.Equal(t, `string "at <m1>"`, entries[0].Result)
	assert.Contains(t, entries[0].Error, `"dial <m1>"`)
	assert.Equal(t, `panic: string "reason"`, entries[1].Result)
	assert.Equal(t, "no panic", entries[2].Result)
}

func TestAnErrorEndsTheBehaviour(t *testing.T) {
	cause := errors.New("cause")
	entries, err := transcript.Record("behaviour", func(log *transcript.Log) {
		log.Value("before", 1)
		fatal.If(cause)
		log.Value("after", 1)
	})
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, `after step "behaviour: before"`)
	require.Len(t, entries, 1)
	assert.PanicsWithValue(t, "other", func() {
		_, _ = transcript.Record("behaviour", func(*transcript.Log) { panic("other") })
	}, "a panic of the program is not swallowed")
}
