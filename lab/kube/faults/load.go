package main

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/kube"
)

const (
	namespace = "load"
	watchers  = 4
	writers   = 2
	leaders   = 8
	// writeEvery is the pause after each write of a writer, listEvery after each list, readyEvery
	// after each check whether the API server is ready.
	writeEvery = 50 * time.Millisecond
	listEvery  = 250 * time.Millisecond
	readyEvery = 250 * time.Millisecond
	// readyTimeout bounds such a check.
	readyTimeout = 2 * time.Second
	// requestTimeout bounds a request: client-go's controllers wait so long for a lease.
	requestTimeout = 10 * time.Second
)

// load is the clients of the API server.
type load struct {
	meter  *meter
	core   *core.CoreV1Client
	http   *http.Client
	number atomic.Int64
	cancel context.CancelFunc
	work   sync.WaitGroup
}

func startLoad(ctx context.Context, c *kube.ControlPlane) *load {
	config := c.Admin()
	client := fatal.OK(rest.HTTPClientFor(config))
	leases := fatal.OK(coordination.NewForConfigAndClient(config, client))
	l := &load{
		meter: &meter{pending: make(map[string]*pendingWrite)}, core: fatal.OK(core.NewForConfigAndClient(config, client)),
		http: client,
	}
	fatal.OK(l.core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))
	ctx, l.cancel = context.WithCancel(ctx)
	var watching sync.WaitGroup
	for range watchers {
		watching.Add(1)
		l.work.Go(func() { l.watch(ctx, watching.Done) })
	}
	watching.Wait()
	for range writers {
		l.work.Go(func() { l.write(ctx) })
	}
	// Objects that change all the time, and objects that never do.
	l.work.Go(func() {
		list(ctx, l.meter, func(r *row) *float64 { return &r.List }, l.core.ConfigMaps(namespace).List)
	})
	l.work.Go(func() {
		list(ctx, l.meter, func(r *row) *float64 { return &r.QuietList }, l.core.ResourceQuotas(namespace).List)
	})
	l.work.Go(func() { l.checkReady(ctx) })
	for i := range leaders {
		l.work.Go(func() { l.lead(ctx, leases, "leader-"+strconv.Itoa(i)) })
	}
	return l
}

func (l *load) stop() {
	l.cancel()
	l.work.Wait()
	l.http.CloseIdleConnections()
}

func every(ctx context.Context, interval time.Duration, do func()) {
	for ctx.Err() == nil {
		do()
		_ = pause.For(ctx, interval)
	}
}

// write creates objects, and deletes each later.
func (l *load) write(ctx context.Context) {
	var old []string
	every(ctx, writeEvery, func() {
		name := "object-" + strconv.FormatInt(l.number.Add(1), 10)
		took, err := timed(ctx, func(ctx context.Context) error {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": "The object number " + name}}
			_, err := l.core.ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{})
			return err
		})
		if ctx.Err() != nil {
			return
		}
		l.meter.note(func(r *row) {
			r.Writes++
			r.Write = max(r.Write, took.Seconds())
			if err != nil {
				r.FailedWrites++
			}
		})
		if err != nil {
			l.meter.forget(name)
			return
		}
		l.meter.wrote(name, watchers)
		if old = append(old, name); len(old) > 100 {
			_, _ = timed(ctx, func(ctx context.Context) error {
				return l.core.ConfigMaps(namespace).Delete(ctx, old[0], metav1.DeleteOptions{})
			})
			old = old[1:]
		}
	})
}

// watch follows the objects. The next watch resumes where the last one ended.
func (l *load) watch(ctx context.Context, began func()) {
	last, seen := "0", map[string]bool{} // a watch may show an object again
	for ctx.Err() == nil {
		w, err := l.core.ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: last, AllowWatchBookmarks: true})
		if err != nil {
			_ = pause.For(ctx, 100*time.Millisecond)
			continue
		}
		if began != nil {
			began()
			began = nil
		}
		for event := range w.ResultChan() {
			object, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				last = "" // the history is gone: the watch starts over with all objects
				break
			}
			last = object.ResourceVersion
			if event.Type == watch.Added && !seen[object.Name] {
				seen[object.Name] = true
				l.meter.delivered(object.Name)
			}
		}
		w.Stop()
	}
}

// list measures linearizable reads.
func list[T any](ctx context.Context, m *meter, worst func(*row) *float64, read func(context.Context, metav1.ListOptions) (T, error)) {
	every(ctx, listEvery, func() {
		took, err := timed(ctx, func(ctx context.Context) error {
			_, err := read(ctx, metav1.ListOptions{})
			return err
		})
		if err != nil {
			took = max(took, requestTimeout)
		}
		if ctx.Err() == nil {
			m.note(func(r *row) { *worst(r) = max(*worst(r), took.Seconds()) })
		}
	})
}

// timed makes a request, and returns how long it took.
func timed(ctx context.Context, request func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	began := time.Now()
	err := request(ctx)
	return time.Since(began), err
}

// checkReady measures for how long the API server says that it is not ready: each check that fails counts with the time since
// the one before.
func (l *load) checkReady(ctx context.Context) {
	last := time.Now()
	every(ctx, readyEvery, func() {
		within, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		err := l.core.RESTClient().Get().AbsPath("/readyz").Do(within).Error()
		passed := time.Since(last)
		last = last.Add(passed)
		if err != nil && ctx.Err() == nil {
			l.meter.note(func(r *row) { r.NotReady += passed.Seconds() })
		}
	})
}

// lead runs a controller's leader election with client-go's default times, and again after the
// lease was lost.
func (l *load) lead(ctx context.Context, leases *coordination.CoordinationV1Client, name string) {
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Client: leases,
				LockConfig: resourcelock.ResourceLockConfig{Identity: "one"},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {},
				OnStoppedLeading: func() {},
			},
		})
		if ctx.Err() == nil {
			l.meter.note(func(r *row) { r.LeasesLost++ })
		}
	}
}
