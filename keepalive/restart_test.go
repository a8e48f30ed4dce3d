package keepalive_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/keepalive"
)

// testTimeout is how long tests wait for what must happen, in virtual time.
const testTimeout = 30 * time.Second

// handlerTime is how long each call takes.
const handlerTime = 10 * time.Millisecond

// TestTwentyRestartsFailNoRepeatableCall restarts a server under load, in turn with
// GracefulStop and with Stop. Calls that are named as repeatable all succeed unless their answer had begun; calls
// that are named to be made once are executed once at most, and those that a Stop
// broke are reported, once. A channel without Calls shows what happens otherwise.
func TestTwentyRestartsFailNoRepeatableCall(t *testing.T) {
	for _, policy := range []string{"pick_first", "quorate_round_robin"} {
		t.Run(policy, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { restarts(t, policy) }) })
	}
}

func restarts(t *testing.T, policy string) {
	const times, callers = 20, 4
	var mu sync.Mutex
	executed := make(map[string]int) // UnaryCalls by their payload
	var repeated atomic.Int64        // executed EmptyCalls
	counting := service{
		empty: func(context.Context) error {
			repeated.Add(1)
			time.Sleep(handlerTime)
			return nil
		},
		unary: func(r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			mu.Lock()
			executed[string(r.GetPayload().GetBody())]++
			mu.Unlock()
			time.Sleep(handlerTime)
			return &testgrpc.SimpleResponse{}, nil
		},
	}
	p := newPipeNet(0)
	server := p.startServer(counting)
	options, err := keepalive.Calls{
		Repeatable: []string{testgrpc.TestService_EmptyCall_FullMethodName},
		Once:       []string{testgrpc.TestService_UnaryCall_FullMethodName},
		Timeout:    2 * testTimeout,
		Base:       fmt.Sprintf(`{"loadBalancingConfig": [{%q: {}}]}`, policy),
	}.DialOptions()
	require.NoError(t, err)
	conn, plain := p.connectTo(t, options...), p.connectTo(t)
	defer conn.Close()
	defer plain.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var begun atomic.Int64
	repeatable, waitRepeatable := load(ctx, callers, func(ctx context.Context) error {
		var header metadata.MD
		_, err := testgrpc.NewTestServiceClient(conn).EmptyCall(ctx, &testgrpc.Empty{}, grpc.Header(&header))
		if err != nil && header != nil { // a Stop met it between its header and its end: see TestACallThatIsAnsweredIsNotRepeated
			begun.Add(1)
			return nil
		}
		return err
	})
	ids := &identified{client: testgrpc.NewTestServiceClient(conn)}
	once, waitOnce := load(ctx, callers, ids.call)
	plainIDs := &identified{client: testgrpc.NewTestServiceClient(plain), prefix: "plain "}
	unnamed, waitUnnamed := load(ctx, 1, withPause(plainIDs.call))

	for i := range times {
		awaitProgress(t, repeatable, once)
		server.stop(i%2 == 0)
		time.Sleep(handlerTime)
		p.reopen()
		server = p.startServer(counting)
	}
	awaitProgress(t, repeatable, once)
	cancel()
	waitRepeatable()
	waitOnce()
	waitUnnamed()
	server.stop(true)

	count := repeatable.count()
	assert.NoError(t, repeatable.first)
	assert.Equal(t, map[codes.Code]int{codes.OK: count[codes.OK]}, count)
	assert.Greater(t, repeated.Load(), int64(count[codes.OK]), "some were executed twice: they are repeatable")

	broken := once.count()
	t.Logf("answer had begun %d; repeatable %v; once %v; unnamed %v", begun.Load(), count, broken, unnamed.count())
	assert.Equal(t, map[codes.Code]int{codes.OK: broken[codes.OK], codes.Unavailable: broken[codes.Unavailable]}, broken)
	assert.Positive(t, broken[codes.Unavailable])
	assert.LessOrEqual(t, broken[codes.Unavailable], times/2*callers, "one for each call that a Stop may have met")
	for id, n := range executed {
		assert.Equal(t, 1, n, "executions of call %s", id)
	}
	for _, id := range ids.succeeded() {
		assert.Contains(t, executed, id)
	}
	assert.Positive(t, unnamed.count()[codes.Unavailable], "without Calls, restarts are seen")
}

// identified makes UnaryCalls that each carry a name of their own.
type identified struct {
	client testgrpc.TestServiceClient
	prefix string
	next   atomic.Int64
	mu     sync.Mutex
	ok     []string
}

func (c *identified) call(ctx context.Context) error {
	id := c.prefix + strconv.FormatInt(c.next.Add(1), 10)
	_, err := c.client.UnaryCall(ctx, &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: []byte(id)}})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ok = append(c.ok, id)
	}
	return err
}

func (c *identified) succeeded() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ok
}

// withPause pauses after a call that failed at once.
func withPause(call func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := call(ctx)
		if err != nil {
			time.Sleep(handlerTime)
		}
		return err
	}
}

// awaitProgress waits until each load has had successes since it was called.
func awaitProgress(t *testing.T, loads ...*outcomes) {
	t.Helper()
	const enough = 20
	before := make([]int, len(loads))
	for i, o := range loads {
		before[i] = o.count()[codes.OK]
	}
	ready := func() bool {
		for i, o := range loads {
			if o.count()[codes.OK] < before[i]+enough {
				return false
			}
		}
		return true
	}
	for end := time.Now().Add(testTimeout); !ready(); time.Sleep(handlerTime) {
		require.True(t, time.Now().Before(end), "no progress")
	}
}
