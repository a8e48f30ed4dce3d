package behaviours

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers/site"
)

// Site is where a behaviour runs.
type Site struct{ site.Site }

// Behaviour is one behaviour of a client and a server.
type Behaviour struct {
	// Area is the part of the matrix in which it is a row, "" for one that is none.
	Area, Name string
	Setup      site.Setup

	run runner
}

// runner records what it sees in a transcript, or checks it, or both. An error ends it, see package fatal.
type runner = func(context.Context, Site, *transcript.Log)

// String returns the name by which a program runs it.
func (b Behaviour) String() string { return b.Area + ": " + b.Name }

// Play runs behaviours on a site, in their order, and returns what they recorded. It ends with the first that fails.
func Play(ctx context.Context, at site.Site, names ...string) (o site.Outcome) {
	for _, name := range names {
		i := slices.IndexFunc(All, func(b Behaviour) bool { return b.String() == name })
		if i < 0 {
			o.Error = "no such behaviour: " + name
			return o
		}
		entries, err := All[i].play(ctx, Site{at})
		o.Entries = append(o.Entries, entries...)
		if err != nil {
			o.Error = fmt.Sprintf("%s: %v", name, err)
			return o
		}
	}
	return o
}

func (b Behaviour) play(ctx context.Context, s Site) ([]transcript.Entry, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Limit, errors.New("the behaviour hangs"))
	defer cancel()
	return transcript.Record(b.Name, func(log *transcript.Log) {
		for i, endpoint := range s.Endpoints {
			_, address, _ := strings.Cut(endpoint, "://")
			log.Alias(endpoint, fmt.Sprintf("URL of m%d", i+1))
			log.Alias(address, fmt.Sprintf("address of m%d", i+1))
		}
		b.run(ctx, s, log)
	})
}

// config returns a configuration for the site.
func (s Site) config() clientv3.Config {
	return clientv3.Config{Endpoints: s.Endpoints, TLS: ok(s.Files.TLS()), DialTimeout: 10 * time.Second, Logger: zap.NewNop()}
}

// client makes a client. The process ends without closing it.
func (s Site) client() *clientv3.Client { return ok(clientv3.New(s.config())) }

// as makes a client of a user whose password is the name.
func (s Site) as(user string) *clientv3.Client { return ok(s.login(user, user)) }

func (s Site) login(user, password string) (*clientv3.Client, error) {
	cfg := s.config()
	cfg.Username, cfg.Password = user, password
	return clientv3.New(cfg)
}

// do performs acts on the server, in order.
func (s Site) do(ctx context.Context, acts ...site.Act) {
	for _, act := range acts {
		s.Do(ctx, act)
	}
}

// create writes a key that must not exist, as Kubernetes does, and returns its revision. It is understood by kine too.
func create(ctx context.Context, c *clientv3.Client, key, value string, opts ...clientv3.OpOption) int64 {
	resp := ok(c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, value, opts...)).Else(clientv3.OpGet(key)).Commit())
	want(resp.Succeeded, "%s exists", key)
	return resp.Header.Revision
}

// delivery bounds the wait for what a watch or a keepalive must deliver.
const delivery = 20 * time.Second

// await returns what comes next on a channel, and whether it is open.
func await[T any](ch <-chan T, what string) (v T, open bool) {
	select {
	case v, open = <-ch:
	case <-time.After(delivery):
		fail("%s: nothing was delivered within %v", what, delivery)
	}
	return v, open
}

// next returns what comes next on a channel that must be open.
func next[T any](ch <-chan T, what string) T {
	v, open := await(ch, what)
	want(open, "%s: it has ended", what)
	return v
}

// awaitEnd reads a channel to its end.
func awaitEnd[T any](ch <-chan T, what string) {
	for open := true; open; {
		_, open = await(ch, what)
	}
}

// events returns the next n events of a watch, which must be in order, whichever responses they come in.
func events(watch clientv3.WatchChan, n int) []*clientv3.Event {
	got := eventsUntil(watch, func(events []*clientv3.Event) bool { return len(events) >= n })
	want(len(got) == n, "%d events, want %d", len(got), n)
	return got
}

// eventsUntil returns the next events of a watch, which must be in order, until they are enough.
func eventsUntil(watch clientv3.WatchChan, enough func([]*clientv3.Event) bool) (got []*clientv3.Event) {
	for last := int64(0); !enough(got); {
		resp := next(watch, fmt.Sprintf("the watch, after %d events", len(got)))
		must(resp.Err())
		for _, e := range resp.Events {
			want(e.Kv.ModRevision >= last, "event of revision %d after %d", e.Kv.ModRevision, last)
			last = e.Kv.ModRevision
			got = append(got, e)
		}
	}
	return got
}

// created opens a watch and returns it when the server has it.
func created(ctx context.Context, c clientv3.Watcher, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	watch := c.Watch(ctx, key, append(opts, clientv3.WithCreatedNotify())...)
	resp := next(watch, "created")
	must(resp.Err())
	want(resp.Created, "the first response is %+v", resp)
	return watch
}

// each calls f concurrently for 0 to n-1. If a call fails, so does the caller.
func each(n int, f func(i int)) {
	var work errgroup.Group
	for i := range n {
		work.Go(func() error { return fatal.Catch(func() { f(i) }) })
	}
	must(work.Wait())
}

// must ends the behaviour if there is an error.
func must(err error) { fatal.If(err) }

// want ends the behaviour if a condition does not hold.
func want(ok bool, format string, args ...any) {
	if !ok {
		fail(format, args...)
	}
}

// fail ends the behaviour with an error.
func fail(format string, args ...any) { fatal.If(fmt.Errorf(format, args...)) }

// ok returns the result of a call that must not fail.
func ok[T any](result T, err error) T { return fatal.OK(result, err) }
