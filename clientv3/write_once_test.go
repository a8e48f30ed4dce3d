package clientv3_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

// breakage is a way to lose a response, with the code that the client receives.
type breakage struct {
	name string
	code codes.Code
	end  func(t *testing.T, c *fakeetcd.Call)
}

var breakages = []breakage{
	{"connection broken", codes.Unavailable, func(_ *testing.T, c *fakeetcd.Call) { c.BreakConn() }},
	{"connection broken after the header", codes.Unavailable, func(t *testing.T, c *fakeetcd.Call) {
		t.Helper()
		assert.NoError(t, c.SendHeader(metadata.Pairs("k", "v")))
		c.BreakConn()
	}},
	{"connection broken after the message", codes.Unavailable, func(t *testing.T, c *fakeetcd.Call) {
		t.Helper()
		resp, err := c.Execute()
		assert.NoError(t, err)
		assert.NoError(t, c.Send(resp))
		c.BreakConn()
	}},
	{"stream reset, CANCEL", codes.Canceled, func(_ *testing.T, c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetCancel) }},
	{"stream reset, INTERNAL_ERROR", codes.Internal, func(_ *testing.T, c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetInternal) }},
	{"stream reset, ENHANCE_YOUR_CALM", codes.ResourceExhausted, func(_ *testing.T, c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetEnhanceYourCalm) }},
	{"answered twice", codes.Internal, func(t *testing.T, c *fakeetcd.Call) {
		t.Helper()
		resp, err := c.Execute()
		assert.NoError(t, err)
		_ = c.AnswerTwice(resp) // the client may be gone before the second
	}},
	{"answered with nothing", codes.Internal, func(_ *testing.T, c *fakeetcd.Call) { c.Answer(nil, nil) }},
	{"answered Canceled", codes.Canceled, answer(codes.Canceled, "context canceled")},
	{"answered DeadlineExceeded", codes.DeadlineExceeded, answer(codes.DeadlineExceeded, "context deadline exceeded")},
	{"answered Unavailable", codes.Unavailable, answer(codes.Unavailable, "the balancer is busy")},
	{"answered Unknown", codes.Unknown, answer(codes.Unknown, "what happened?")},
	{"answered Internal", codes.Internal, answer(codes.Internal, "stack overflow")},
	{"answered Aborted", codes.Aborted, answer(codes.Aborted, "conflict")},
	{"answered DataLoss", codes.DataLoss, answer(codes.DataLoss, "disk")},
}

func answer(code codes.Code, message string) func(*testing.T, *fakeetcd.Call) {
	return func(_ *testing.T, c *fakeetcd.Call) { c.Answer(nil, status.Error(code, message)) }
}

// writes are the mutating calls of KV.
var writes = map[string]struct {
	method string
	call   func(ctx context.Context, c *Client) error
}{
	"Put":    {"Put", func(ctx context.Context, c *Client) error { _, err := c.Put(ctx, "k", "v"); return err }},
	"Delete": {"DeleteRange", func(ctx context.Context, c *Client) error { _, err := c.Delete(ctx, "k"); return err }},
	"Txn": {"Txn", func(ctx context.Context, c *Client) error {
		_, err := c.Txn(ctx).Then(OpGet("k")).Else(OpPut("k", "v")).Commit()
		return err
	}},
}

// A write is received once, wherever its connection breaks, and its outcome is reported as
// unknown.
func TestWriteIsReceivedOnce(t *testing.T) {
	for name, w := range writes {
		for _, b := range breakages {
			for _, executed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/executed=%t", name, b.name, executed), func(t *testing.T) {
					clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
						hook := cluster.Once(w.method, func(call *fakeetcd.Call) {
							if executed {
								_, err := call.Execute()
								assert.NoError(t, err)
							}
							b.end(t, call)
						})
						err := w.call(t.Context(), c)
						var unknown *retry.UnknownOutcomeError
						require.ErrorAs(t, err, &unknown)
						assert.Equal(t, b.code, status.Code(err))
						assert.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
						assert.Equal(t, 1, hook.Ran())

						// A second request would have arrived earlier.
						clienttest.Get(t, c, "k")
						assert.Equal(t, 1, cluster.Count(w.method))
					})
				})
			}
		}
	}
}

// A write that an interceptor of the program sends again is sent no further by the client, and no refusal of a later
// copy, nor the interceptor's own error, says that it was not executed.
func TestWriteThatAnInterceptorRepeats(t *testing.T) {
	own := status.Error(codes.FailedPrecondition, "the response is not valid")
	for name, second := range map[string]error{
		"no leader": rpctypes.ErrGRPCNoLeader, "too many requests": rpctypes.ErrGRPCRequestTooManyRequests,
		"permission denied": rpctypes.ErrGRPCPermissionDenied, "its own": own,
	} {
		t.Run(name, func(t *testing.T) {
			clienttest.Bubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster) {
				again := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
					err := invoke(ctx, method, req, reply, cc, opts...)
					switch {
					case status.Code(err) != codes.Unavailable:
						return err
					case second == own:
						return own
					}
					return invoke(ctx, method, req, reply, cc, opts...)
				}
				c := clienttest.Connect(t, cluster, Config{DialOptions: append(cluster.DialOptions(), grpc.WithChainUnaryInterceptor(again))})
				cluster.Once("Put", clienttest.LoseAnswer)
				cluster.Nth("Put", 2, func(call *fakeetcd.Call) { call.Answer(nil, second) })
				_, err := c.Put(t.Context(), "k", "v")
				var unknown *retry.UnknownOutcomeError
				require.ErrorAs(t, err, &unknown)
				assert.Equal(t, 1, cluster.PutCount("k"))

				cluster.Once("LeaseRevoke", clienttest.LoseAnswer)
				lease, err := c.Grant(t.Context(), 60)
				require.NoError(t, err)
				if second != own {
					_, err = c.Revoke(t.Context(), lease.ID)
					assert.NoError(t, err, "the first copy has revoked it")
				}
			})
		})
	}
}

// A caller that cancels gets its context's error, and the write is not sent again.
func TestCanceledWrite(t *testing.T) {
	for _, want := range []error{context.DeadlineExceeded, context.Canceled} {
		t.Run(want.Error(), func(t *testing.T) {
			clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
				cluster.Once("Put", func(call *fakeetcd.Call) {
					err := call.Hold(nil)
					call.Answer(nil, status.FromContextError(err).Err())
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if want == context.Canceled {
					time.AfterFunc(time.Second/2, cancel)
				}
				_, err := c.Put(ctx, "k", "v")
				assert.Equal(t, want, err)
				assert.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
				assert.Equal(t, 1, cluster.Count("Put"))
			})
		})
	}
}
