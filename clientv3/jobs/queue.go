package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/retry"
)

var (
	// ErrExists is returned by Enqueue, wrapped, if the queue has a job or a dead letter of that id.
	ErrExists = errors.New("there is a job with this id")
	// ErrNotFound is returned, wrapped, if there is no such job: it was acknowledged, removed, or
	// never enqueued.
	ErrNotFound = errors.New("there is no such job")
	// ErrRunning is returned by Remove, wrapped, while a worker has claimed the job.
	ErrRunning = errors.New("a worker has claimed the job")
)

// Queue is a queue of jobs. It holds nothing but its configuration, and is safe for concurrent use.
type Queue struct {
	client *clientv3.Client
	cfg    Config
	keys   keys
}

// New returns the queue of a name. It sends nothing. The error names what is wrong with cfg; [Queue.Work] checks TTL and Margin.
func New(client *clientv3.Client, cfg Config) (*Queue, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Queue{client: client, cfg: cfg, keys: newKeys(cfg.Name)}, nil
}

// EnqueueOption is an option of [Queue.Enqueue].
type EnqueueOption func(*enqueued)

type enqueued struct {
	id    string
	state record
}

// WithID gives a job its id, in place of a random one. While the queue has a job or a dead letter
// with an id, it takes no other one with it.
func WithID(id string) EnqueueOption { return func(e *enqueued) { e.id = id } }

// WithDelay lets a job be handled after d at the earliest, by the clocks of both processes.
func WithDelay(d time.Duration) EnqueueOption {
	return func(e *enqueued) { e.state.NotBefore = time.Now().Add(d).UnixMilli() }
}

// Enqueue adds a job, and returns its id, also with an error. The error is [ErrExists], wrapped, or
// the client's. If it is a *retry.UnknownOutcomeError, or ctx has ended, the job may have been added, or may yet be:
// call Enqueue again with that id. If the first request arrives when the second job was handled
// already, the job is handled again; client.KV of package idempotent excludes that.
func (q *Queue) Enqueue(ctx context.Context, payload string, opts ...EnqueueOption) (id string, err error) {
	e := enqueued{id: rand.Text()}
	for _, opt := range opts {
		opt(&e)
	}
	if e.id == "" {
		return "", errors.New("jobs: the id is empty: leave WithID out, or give it an id")
	}
	payloadKey := q.keys.payloads + e.id
	resp, err := q.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(payloadKey), "=", 0)).
		Then(clientv3.OpPut(payloadKey, payload), clientv3.OpPut(q.keys.states+e.id, e.state.String())).
		Commit()
	switch {
	case err != nil && retry.OutcomeOf(err) == retry.OutcomeUnknown:
		got, _, failure := q.get(ctx, e.id)
		if failure == nil && got.State != Dead && got.Payload == payload {
			err = nil
		}
	case err == nil && !resp.Succeeded:
		err = fmt.Errorf("jobs: %q: %w", e.id, ErrExists)
	}
	return e.id, err
}

// State is the state of a job.
type State int

// The states of a job.
const (
	// Waiting jobs are handled when a worker has a free place, and not before Status.NotBefore.
	Waiting State = iota + 1
	// Running jobs are claimed by a worker.
	Running
	// Dead letters are not handled any more.
	Dead
)

// String returns "waiting", "running" or "dead", and "State(n)" for any other value.
func (s State) String() string {
	return cmp.Or(map[State]string{Waiting: "waiting", Running: "running", Dead: "dead"}[s], fmt.Sprintf("State(%d)", int(s)))
}

// Status is a job at one revision.
type Status struct {
	ID      string
	Payload string
	State   State
	// Attempts is how often it was handled, with the present attempt, and without those that the
	// end of a Work interrupted.
	Attempts int
	// NotBefore is when it may be handled; zero if that is not bounded or it is running, and after the loss of a worker.
	NotBefore time.Time
	// Worker is who handles it: Config.Worker of that process.
	Worker string
	// Error is that of the last attempt whose handler returned one.
	Error string
}

// Get returns a job of the queue, read by one transaction. The error is [ErrNotFound], wrapped, if
// it was acknowledged.
func (q *Queue) Get(ctx context.Context, id string) (*Status, error) {
	s, _, err := q.get(ctx, id)
	return s, err
}

func (q *Queue) get(ctx context.Context, id string) (s *Status, rev int64, err error) {
	resp, err := q.client.Txn(ctx).Then(
		clientv3.OpGet(q.keys.states+id), clientv3.OpGet(q.keys.claims+id),
		clientv3.OpGet(q.keys.deadLetters+id), clientv3.OpGet(q.keys.payloads+id),
	).Commit()
	if err != nil {
		return nil, 0, err
	}
	state, claim, dead := optxn.Key(resp, 0), optxn.Key(resp, 1), optxn.Key(resp, 2)
	s = &Status{ID: id, Payload: string(optxn.Key(resp, 3).GetValue()), State: Waiting, Worker: string(claim.GetValue())}
	switch {
	case claim != nil:
		s.State = Running
	case state == nil && dead != nil:
		s.State, state = Dead, dead
	}
	if state == nil {
		return nil, 0, fmt.Errorf("jobs: %q: %w", id, ErrNotFound)
	}
	r, err := parseRecord(state.Value)
	if err != nil {
		return nil, 0, fmt.Errorf("jobs: the key %q has a value that is no record of a job: %w", state.Key, err)
	}
	s.Attempts, s.Error = r.Attempts, r.Error
	if r.NotBefore > atOnce && s.State == Waiting {
		s.NotBefore = time.UnixMilli(r.NotBefore)
	}
	return s, state.ModRevision, nil
}

// Counts are the numbers of jobs at one revision.
type Counts struct{ Waiting, Running, Dead int64 }

// Count returns how many jobs there are, by one transaction of three counts.
func (q *Queue) Count(ctx context.Context) (Counts, error) {
	count := func(prefix string) clientv3.Op {
		return clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	}
	resp, err := q.client.Txn(ctx).Then(count(q.keys.states), count(q.keys.claims), count(q.keys.deadLetters)).Commit()
	if err != nil {
		return Counts{}, err
	}
	n := func(i int) int64 { return optxn.At(resp, i).GetResponseRange().GetCount() }
	return Counts{Waiting: n(0) - n(1), Running: n(1), Dead: n(2)}, nil
}

// DeadLetters returns the ids of at most limit dead letters, 0 for all, in the order of the ids.
// [Queue.Get] returns what each is.
func (q *Queue) DeadLetters(ctx context.Context, limit int64) ([]string, error) {
	resp, err := q.client.Get(ctx, q.keys.deadLetters, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(limit))
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		ids = append(ids, strings.TrimPrefix(string(kv.Key), q.keys.deadLetters))
	}
	return ids, nil
}

// Retry puts a dead letter back into the queue, with its attempts at 0. The error is [ErrNotFound],
// wrapped, if there is no dead letter of that id, or the client's.
func (q *Queue) Retry(ctx context.Context, id string) error {
	return q.change(ctx, id, Dead, clientv3.OpDelete(q.keys.deadLetters+id), clientv3.OpPut(q.keys.states+id, record{}.String()))
}

// Remove removes a job that waits, or a dead letter. The error is [ErrNotFound] or [ErrRunning],
// wrapped, or the client's.
func (q *Queue) Remove(ctx context.Context, id string) error {
	return q.change(ctx, id, Waiting, clientv3.OpDelete(q.keys.states+id), clientv3.OpDelete(q.keys.deadLetters+id),
		clientv3.OpDelete(q.keys.payloads+id))
}

// change executes ops while the job is what a read has shown: in the state want, or dead.
func (q *Queue) change(ctx context.Context, id string, want State, ops ...clientv3.Op) error {
	for {
		s, rev, err := q.get(ctx, id)
		switch {
		case err != nil:
			return err
		case s.State == Running && want == Waiting:
			return fmt.Errorf("jobs: %q: %w", id, ErrRunning)
		case s.State != want && s.State != Dead:
			return fmt.Errorf("jobs: %q is %v: %w", id, s.State, ErrNotFound)
		}
		key := q.keys.states + id
		if s.State == Dead {
			key = q.keys.deadLetters + id
		}
		resp, err := q.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", rev), q.unclaimed(id)).Then(ops...).Commit()
		if err != nil || resp.Succeeded {
			return err
		}
	}
}

// unclaimed returns the comparison that holds while no worker has claimed the job.
func (q *Queue) unclaimed(id string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(q.keys.claims+id), "=", 0)
}

// maxErrorBytes bounds the text of an error that is stored.
const maxErrorBytes = 1 << 10

// atOnce is the NotBefore of a job that was released: past by any clock.
const atOnce = 1

// record is the value of a job's state, and of a dead letter.
type record struct {
	// Attempts is how often the job was claimed and not released.
	Attempts int `json:"attempts,omitempty"`
	// NotBefore is when it may be claimed, in milliseconds of Unix time. It is 0 while the job is
	// claimed, if its process was lost, and in a dead letter.
	NotBefore int64 `json:"notBefore,omitempty"`
	// Error is that of the last attempt that failed.
	Error string `json:"error,omitempty"`
}

func (r record) String() string {
	text, _ := json.Marshal(r) // numbers and text have a form in JSON
	return string(text)
}

// failed returns the record of a job whose handler returned err. notBefore is zero for a dead letter.
func (r record) failed(err error, notBefore time.Time) record {
	if r.Error, r.NotBefore = err.Error(), 0; !notBefore.IsZero() {
		r.NotBefore = notBefore.UnixMilli()
	}
	if len(r.Error) > maxErrorBytes {
		r.Error = strings.ToValidUTF8(r.Error[:maxErrorBytes], "")
	}
	return r
}

// released returns the record of a job whose claim does not count.
func (r record) released() record {
	r.Attempts--
	r.NotBefore = atOnce
	return r
}

func parseRecord(value []byte) (r record, err error) {
	err = json.Unmarshal(value, &r)
	return r, err
}

// The kinds of keys that workers watch, below keys.live.
const (
	states  = "states"
	claims  = "claims"
	workers = "workers"
)

// keys are the prefixes of a queue's keys.
type keys struct{ live, states, claims, payloads, deadLetters string }

func newKeys(name string) keys {
	live := name + "/live/"
	return keys{
		live: live, states: live + states + "/", claims: live + claims + "/",
		payloads: name + "/payloads/", deadLetters: name + "/dead/",
	}
}
