package retry_test

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/retry"
)

// What to tell the user of a failed write depends on its outcome.
func ExampleOutcomeOf() {
	for _, err := range []error{
		nil,
		rpctypes.ErrLeaseNotFound,
		context.DeadlineExceeded,
		&retry.UnknownOutcomeError{Method: pb.KV_Put_FullMethodName, Err: rpctypes.ErrTimeout},
	} {
		switch retry.OutcomeOf(err) {
		case retry.OutcomeExecuted:
			fmt.Println("written")
		case retry.OutcomeNotExecuted:
			fmt.Println("not written, for certain:", err)
		case retry.OutcomeUnknown:
			fmt.Println("read it back before writing again:", err)
		}
	}
	// Output:
	// written
	// not written, for certain: etcdserver: requested lease not found
	// read it back before writing again: context deadline exceeded
	// read it back before writing again: outcome of /etcdserverpb.KV/Put unknown: it may or may not have been executed, do not repeat it blindly: etcdserver: request timed out
}

// For gRPC, an unknown outcome looks like the error that caused it.
func ExampleUnknownOutcomeError() {
	err := error(&retry.UnknownOutcomeError{
		Method: pb.KV_Put_FullMethodName,
		Err:    status.Error(codes.Unavailable, "connection reset by peer"),
	})
	fmt.Println(status.Code(err), "|", rpctypes.ErrorDesc(err))
	// Output: Unavailable | connection reset by peer
}

// A broken connection ends a read and a write in the same way, and only the
// read is sent again.
func ExampleDecide() {
	err := status.Error(codes.Unavailable, "error reading from server: EOF")
	class := retry.Classify(err, retry.Evidence{Sent: true})
	for _, method := range []string{pb.KV_Range_FullMethodName, pb.KV_Put_FullMethodName} {
		fmt.Println(method, class, retry.Decide(class, retry.SafetyOf(method, nil)))
	}
	// Output:
	// /etcdserverpb.KV/Range Ambiguous Again
	// /etcdserverpb.KV/Put Ambiguous ReturnUnknown
}

// The backoff of one service is set in the words of a gRPC service config.
func ExampleParseServiceConfig() {
	config, err := retry.ParseServiceConfig(`{
		"methodConfig": [{
			"name": [{"service": "etcdserverpb.KV"}],
			"retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.05s"}
		}]
	}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, method := range []string{pb.KV_Range_FullMethodName, pb.Cluster_MemberList_FullMethodName} {
		policy := config.PolicyFor(method)
		fmt.Println(policy.MaxAttempts, policy.InitialBackoff, policy.MaxBackoff)
	}

	_, err = retry.ParseServiceConfig(`{"retryThrottling": {"maxTokens": 5000}}`)
	fmt.Println(err)
	// Output:
	// 5 50ms 1s
	// 0 10ms 1s
	// service config: retryThrottling.maxTokens: 5000; it must be greater than 0 and at most 1000
}
