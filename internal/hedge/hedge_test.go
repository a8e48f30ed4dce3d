package hedge

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// An interceptor of the program answers the second attempt, from a cache for instance: no endpoint is picked.
func TestHedgeThatAnInterceptorAnswersIsNoEvent(t *testing.T) {
	var h Hedger
	var c Call
	first := new(balancer.Attempt)
	h.Begin(&c, first)
	h.Overdue(&c, first, &pb.SimpleRequest{}, &pb.SimpleResponse{}, 0, func(_, reply proto.Message) *Second {
		return &Second{
			Attempt: new(balancer.Attempt), Observer: observe.None{}, Cancel: func(error) {}, Outrun: func(error) {},
			Send: func() error {
				reply.(*pb.SimpleResponse).Username = "cached"
				return nil
			},
			Event: func() observe.Hedge {
				assert.Fail(t, "it has no second endpoint")
				return observe.Hedge{}
			},
		}
	})
	var reply pb.SimpleResponse
	require.NoError(t, h.Conclude(t.Context(), h.End(&c), &reply, assert.AnError, false, nil, nil))
	require.Equal(t, "cached", reply.Username)
}

// An attempt ends while a token is taken for it, and the next one of the call waits for a token: it leaves no trace.
func TestNextAttemptOfAHedgedCallWaitsWhileTheFirstIsServed(t *testing.T) {
	h, c := Hedger{Budget: retry.NewBudget(retry.Throttling{MaxTokens: 1, TokenRatio: 0.01})}, new(Call)
	begin := func() {
		a := new(balancer.Attempt)
		h.Begin(c, a)
		h.Overdue(c, a, &pb.SimpleRequest{}, &pb.SimpleResponse{}, 0, nil)
	}
	h.Budget.Take()
	begin()
	h.Budget.Refund()
	first := h.next()
	h.End(c)
	begin()
	assert.False(t, first.hedge())
	h.End(c)
	assert.Zero(t, h.waiting.Len())
}
