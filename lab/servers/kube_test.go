package servers_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/kube"
	"github.com/quorate/quorate/lab/servers"
)

var loadTime = flag.Duration("load", 10*time.Second, "how long TestKubeAPIServer writes")

// kubernetesServers runs a test on each server that stores for an API server.
func kubernetesServers(t *testing.T, test func(*testing.T, servers.Server)) {
	if os.Getenv(kube.BinaryEnv) == "" {
		t.Skipf("%s names no kube-apiserver: `make kube-servers` builds one over the shim and runs this", kube.BinaryEnv)
	}
	for _, s := range servers.All {
		if slices.Contains([]string{"kine 0.17.5", "etcd 3.5.35"}, s.Name) {
			t.Run(s.Name, func(t *testing.T) { test(t, s) })
		}
	}
}

// TestKubernetesStorage runs the tests of Kubernetes' storage over Quorate on kine and on etcd 3.5.
func TestKubernetesStorage(t *testing.T) {
	kubernetesServers(t, func(t *testing.T, s servers.Server) {
		path, err := s.Build(t.Context())
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), "go", "run", ".", "--suite", "dependents", "--server", path, "k8s.io/apiserver/pkg/storage/etcd3")
		cmd.Dir, cmd.Env = filepath.Join("..", "..", "conformance"), append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err)
	})
}

// TestKubeAPIServer runs the kube-apiserver that kube.BinaryEnv names, which is one over the shim, on kine and on etcd 3.5.
// Writers create, update and delete objects, readers list in pages, and a watch must have every acknowledged change once,
// in order, while the server that stores is killed and restarted.
func TestKubeAPIServer(t *testing.T) {
	kubernetesServers(t, func(t *testing.T, s servers.Server) {
		ctx := grpctest.Within(t, *loadTime+5*time.Minute)
		path, err := s.Build(ctx)
		require.NoError(t, err)
		c, err := kube.Start(ctx, kube.Config{Etcd: s.Config(path), Dir: t.TempDir()})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		l := newLoad(ctx, t, c)
		defer l.close()
		l.run(ctx, t, c)
	})
}

// load is what writers, readers and the watch know.
type load struct {
	objects core.ConfigMapInterface
	close   func()

	mu      sync.Mutex
	written map[string][]uint64 // acknowledged resource versions of an object
	lists   int
}

func newLoad(ctx context.Context, t *testing.T, c *kube.ControlPlane) *load {
	config := c.Admin()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	all, err := core.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	_, err = all.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "load"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return &load{objects: all.ConfigMaps("load"), close: client.CloseIdleConnections, written: make(map[string][]uint64)}
}

func (l *load) run(ctx context.Context, t *testing.T, c *kube.ControlPlane) {
	const writers = 8
	begin, err := l.objects.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	w, err := watchtools.NewRetryWatcherWithContext(ctx, begin.GetResourceVersion(), l)
	require.NoError(t, err)
	defer func() { w.Stop(); <-w.Done() }()
	seen := make(chan map[string][]uint64, 1)
	go func() { seen <- follow(t, w.ResultChan()) }()

	writing, stop := context.WithTimeout(ctx, *loadTime)
	defer stop()
	var work sync.WaitGroup
	for i := range writers {
		work.Go(func() { l.write(writing, ctx, t, i) })
	}
	work.Go(func() { l.read(writing, t) })
	time.Sleep(*loadTime / 2) // the server is killed in the middle of the load
	store := c.Etcd().Members()[0]
	require.NoError(t, store.Kill())
	require.NoError(t, store.Restart(ctx))
	work.Wait()
	l.put(ctx, t, "end", "")

	select {
	case history := <-seen:
		changes := 0
		for name, versions := range l.written {
			changes += len(versions)
			for _, v := range versions {
				require.Contains(t, history[name], v, "%s: the event of %d is missing", name, v)
			}
		}
		t.Logf("%d objects, %d changes acknowledged and seen, %d lists in pages", len(l.written), changes, l.lists)
		require.Greater(t, l.lists, 1)
	case <-ctx.Done():
		t.Fatal("the watch does not reach the end")
	}
}

// follow returns the resource versions of a watch by object, up to that named end. They must grow.
func follow(t *testing.T, events <-chan watch.Event) map[string][]uint64 {
	history := make(map[string][]uint64)
	last := uint64(0)
	for e := range events {
		object, ok := e.Object.(*corev1.ConfigMap)
		if !ok {
			t.Errorf("the watch says %v", e.Object)
			break
		}
		version := versionOf(t, object)
		if version <= last {
			t.Errorf("resource version %d after %d", version, last)
		}
		last = version
		history[object.Name] = append(history[object.Name], version)
		if object.Name == "end" {
			break
		}
	}
	return history
}

func versionOf(t *testing.T, object *corev1.ConfigMap) uint64 {
	version, err := strconv.ParseUint(object.ResourceVersion, 10, 64)
	if err != nil {
		t.Error(err)
	}
	return version
}

// WatchWithContext implements cache.WatcherWithContext.
func (l *load) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return l.objects.Watch(ctx, options)
}

// write makes objects, changes them and deletes every other one, until writing ends.
func (l *load) write(writing, ctx context.Context, t *testing.T, writer int) {
	for i := 0; writing.Err() == nil; i++ {
		name := fmt.Sprintf("w%d-%d", writer, i)
		l.put(ctx, t, name, "created")
		l.put(ctx, t, name, "updated")
		if i%2 == 0 {
			l.remove(ctx, t, name)
		}
	}
}

// put creates an object or changes it to a value, again and again while the store is unreachable.
func (l *load) put(ctx context.Context, t *testing.T, name, value string) {
	l.until(ctx, t, "put "+name, func(ctx context.Context) error {
		got, err := l.objects.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			got = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
			got, err = l.objects.Create(ctx, got, metav1.CreateOptions{})
		case err == nil && got.Data["value"] == value: // by an earlier try
			return nil
		case err == nil:
			got.Data["value"] = value
			got, err = l.objects.Update(ctx, got, metav1.UpdateOptions{})
		}
		if err == nil {
			l.mu.Lock()
			l.written[name] = append(l.written[name], versionOf(t, got))
			l.mu.Unlock()
		}
		return err
	})
}

func (l *load) remove(ctx context.Context, t *testing.T, name string) {
	l.until(ctx, t, "delete "+name, func(ctx context.Context) error {
		err := l.objects.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// until repeats a request until it succeeds.
func (l *load) until(ctx context.Context, t *testing.T, what string, request func(context.Context) error) {
	for {
		inner, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := request(inner)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		_ = pause.For(ctx, 50*time.Millisecond)
	}
}

// read lists everything in pages.
func (l *load) read(writing context.Context, t *testing.T) {
	for writing.Err() == nil {
		options := metav1.ListOptions{Limit: 100}
		for {
			page, err := l.objects.List(writing, options)
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Logf("list: %v", err)
				}
				break
			}
			if options.Continue = page.GetContinue(); options.Continue == "" {
				l.lists++
				break
			}
		}
		_ = pause.For(writing, 200*time.Millisecond)
	}
}
