// Package labtest has what tests on real clusters share.
package labtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3" //nolint:depguard // this is a package of tests
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/retry"
)

// Timeout ends a test that hangs. It is far longer than any test takes.
const Timeout = 5 * time.Minute

// Verify is the TestMain of a package whose tests start clusters: it runs them, and fails if they
// leave a goroutine behind, but for those that the options name.
func Verify(m goleak.TestingM, but ...goleak.Option) {
	lab.Main()
	goleak.VerifyTestMain(m, but...)
}

// Main is the TestMain of a package whose tests share a cluster of one member, each with keys
// of its own: it starts the cluster and hands it to use, runs the tests, and fails if they
// leave a goroutine behind.
func Main(m *testing.M, use func(*lab.Cluster)) { Verify(suite{m, use}) }

// suite is the tests, with the cluster around them.
type suite struct {
	*testing.M
	use func(*lab.Cluster)
}

// Run returns the exit code.
func (s suite) Run() int {
	cluster, err := lab.Start(context.Background(), lab.Config{Members: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.use(cluster)
	code := s.M.Run()
	if err := cluster.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Start starts a cluster, which is closed at the end of the test. Its files are in a directory
// of the test's.
func Start(t testing.TB, cfg lab.Config) *lab.Cluster {
	t.Helper()
	cfg.Dir = t.TempDir()
	c, err := lab.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Client returns a client that logs nothing, and is closed at the end of the test if the test
// has not done so.
func Client(t testing.TB, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	cfg.Logger = zap.NewNop()
	c, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Official returns an official client that logs nothing, and is closed at the end of the test.
func Official(t testing.TB, endpoints ...string) *official.Client {
	t.Helper()
	c, err := official.New(official.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Context returns a context that ends long after the test should have.
func Context(t *testing.T) context.Context {
	t.Helper()
	return grpctest.Within(t, Timeout)
}

// UntilKnown makes a change that may be made twice, and again while its outcome is unknown: a busy machine elects leaders.
func UntilKnown(ctx context.Context, t testing.TB, change func() error) {
	t.Helper()
	err := change()
	for retry.OutcomeOf(err) == retry.OutcomeUnknown && ctx.Err() == nil {
		err = change()
	}
	require.NoError(t, err)
}
