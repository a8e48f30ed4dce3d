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
	"github.com/quorate/quorate/lab/internal/scrape"
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
		l.work.Go(func() { l.watch(ctx, sync.OnceFunc(watching.Done)) })
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

// watch follows the objects, and calls began when a watch begins. The next one resumes where the last one ended.
func (l *load) watch(ctx context.Context, began func()) {
	last, seen := "0", map[string]bool{} // a watch may show an object again
	for ctx.Err() == nil {
		w, err := l.core.ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: last, AllowWatchBookmarks: true})
		if err != nil {
			_ = pause.For(ctx, 100*time.Millisecond)
			continue
		}
		began()
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

// meter keeps the worst figures of a phase, and the writes that watches have still to show.
type meter struct {
	mu      sync.Mutex
	worst   row
	pending map[string]*pendingWrite // events that watches have not delivered, by object
}

// pendingWrite is a write that was answered, and how many watches have not shown it.
type pendingWrite struct {
	at    time.Time
	count int
}

func (m *meter) note(change func(*row)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.worst)
}

// reset begins a phase, that of a fault or of none.
func (m *meter) reset(fault string) {
	m.note(func(r *row) { *r = row{Fault: fault} })
}

// read ends a phase. A write that is still pending counts as late as it is by now.
func (m *meter) read() row {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.worst
	for _, o := range m.pending {
		if !o.at.IsZero() {
			r.Event = max(r.Event, time.Since(o.at).Seconds())
		}
	}
	return r
}

// wrote notes that the write of an object was answered.
func (m *meter) wrote(name string, watches int) {
	m.update(name, func(o *pendingWrite) {
		o.at = time.Now()
		o.count += watches
	})
}

// delivered notes that a watch has shown an object, perhaps before its write was answered.
func (m *meter) delivered(name string) {
	m.update(name, func(o *pendingWrite) {
		o.count--
		if !o.at.IsZero() {
			m.worst.Event = max(m.worst.Event, time.Since(o.at).Seconds())
		}
	})
}

// update changes a pending write, which is over when its count is 0.
func (m *meter) update(name string, change func(*pendingWrite)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.pending[name]
	if o == nil {
		o = &pendingWrite{}
		m.pending[name] = o
	}
	change(o)
	if o.count == 0 {
		delete(m.pending, name)
	}
}

// forget drops a write whose outcome is not known.
func (m *meter) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, name)
}

// cost is what an API server without load costs.
type cost struct {
	Ready       float64 `json:"ready_seconds"`           // until it was ready, etcd's start included
	StartCPU    float64 `json:"start_cpu_seconds"`       // until it was ready
	IdleCPU     float64 `json:"idle_cpu_seconds_minute"` // seconds a minute
	Heap        float64 `json:"heap_mib"`                // live, derived from the target of the next collection
	Connections int     `json:"connections"`             // to etcd
}

func costOf(ctx context.Context, c *kube.ControlPlane, ready, idle time.Duration) cost {
	started := metrics(ctx, c)
	fatal.If(pause.For(ctx, idle))
	after := metrics(ctx, c)
	r := cost{
		Ready: ready.Seconds(), StartCPU: started.Sum("process_cpu_seconds_total"),
		Heap: after.Sum("go_memstats_next_gc_bytes") / 2 / (1 << 20),
	}
	if idle > 0 {
		r.IdleCPU = (after.Sum("process_cpu_seconds_total") - started.Sum("process_cpu_seconds_total")) / idle.Minutes()
	}
	for _, m := range c.Etcd().Members() {
		r.Connections += c.Etcd().ClientLink(m).Stats().Active
	}
	return r
}

func metrics(ctx context.Context, c *kube.ControlPlane) scrape.Metrics {
	client := fatal.OK(rest.HTTPClientFor(c.Admin()))
	defer client.CloseIdleConnections()
	return scrape.Read(ctx, client, c.URL())
}
