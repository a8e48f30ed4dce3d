package quorate

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"
	"unique"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

const dialTimeout = 5 * time.Second

// Client is a client as the lab uses it: a [client.Watcher], [client.Lessor] and [client.Locker].
type Client struct{ *clientv3.Client }

// Dial connects a client that logs nothing.
func Dial(cfg clientv3.Config) (*clientv3.Client, error) {
	cfg.DialTimeout, cfg.Logger = dialTimeout, zap.NewNop()
	return clientv3.New(cfg)
}

func connect(cfg clientv3.Config) (client.Connection, error) {
	c, err := Dial(cfg)
	return connection(c), err
}

func connection(c *clientv3.Client) client.Connection {
	return client.Connection{KV: NewKV(c), Watcher: Client{c}, Lessor: Client{c}, Close: c.Close}
}

// Locker connects one contender through a client with nothing set but endpoints and a dial timeout.
func Locker(endpoints []string) (client.Locker, error) {
	c, err := Dial(clientv3.Config{Endpoints: endpoints})
	return Client{c}, err
}

// NewKV returns a KV that makes its operations through a client. All puts have the options.
func NewKV(kv clientv3.KV, puts ...clientv3.OpOption) client.KV { return modelKV{kv, puts} }

// modelKV executes the requests of the model.
type modelKV struct {
	kv   clientv3.KV
	puts []clientv3.OpOption
}

// noLease does not exist: the ids of leases are larger.
const noLease = clientv3.LeaseID(1)

func (k modelKV) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	then := k.operations(keys, request.Then)
	switch request.Kind {
	case model.Snapshot, model.Txn:
		resp, err := k.kv.Txn(ctx).If(comparisons(keys, request.If)...).Then(then...).Else(k.operations(keys, request.Else)...).Commit()
		if err != nil {
			return model.Response{}, err
		}
		out := model.Response{Revision: resp.Header.GetRevision(), Succeeded: resp.Succeeded}
		for _, r := range resp.Responses {
			out.Results = append(out.Results, result(r.GetResponseRange(), r.GetResponsePut(), r.GetResponseDeleteRange()))
		}
		return out, nil
	case model.SerializableGet:
		then[0] = clientv3.OpGet(keys[request.Then[0].Key], clientv3.WithSerializable())
	default:
	}
	resp, err := k.kv.Do(ctx, then[0])
	if err != nil {
		return model.Response{}, err
	}
	get, put, deleted := (*pb.RangeResponse)(resp.Get()), (*pb.PutResponse)(resp.Put()), (*pb.DeleteRangeResponse)(resp.Del())
	header := cmp.Or(get.GetHeader(), put.GetHeader(), deleted.GetHeader())
	return model.Response{Revision: header.GetRevision(), Succeeded: true, Results: []model.Result{result(get, put, deleted)}}, nil
}

func (k modelKV) operations(keys [model.Keys]string, acts []model.Act) []clientv3.Op {
	ops := make([]clientv3.Op, len(acts))
	for i, act := range acts {
		var opts []clientv3.OpOption
		if act.Prev {
			opts = append(opts, clientv3.WithPrevKV())
		}
		if act.MissingLease {
			opts = append(opts, clientv3.WithLease(noLease))
		}
		switch key := keys[act.Key]; act.Verb {
		case model.Read:
			ops[i] = clientv3.OpGet(key)
		case model.Write:
			ops[i] = clientv3.OpPut(key, act.Value, append(opts, k.puts...)...)
		case model.Remove:
			ops[i] = clientv3.OpDelete(key, opts...)
		}
	}
	return ops
}

func comparisons(keys [model.Keys]string, wanted []model.Compare) []clientv3.Cmp {
	cmps := make([]clientv3.Cmp, len(wanted))
	for i, c := range wanted {
		key, operator := keys[c.Key], "="
		if c.NotEqual {
			operator = "!="
		}
		switch c.Target {
		case model.Value:
			cmps[i] = clientv3.Compare(clientv3.Value(key), operator, c.Value)
		case model.Version:
			cmps[i] = clientv3.Compare(clientv3.Version(key), operator, c.Number)
		case model.CreateRevision:
			cmps[i] = clientv3.Compare(clientv3.CreateRevision(key), operator, c.Number)
		case model.ModRevision:
			cmps[i] = clientv3.Compare(clientv3.ModRevision(key), operator, c.Number)
		}
	}
	return cmps
}

// result returns what one of the responses shows; the others are nil.
func result(get *pb.RangeResponse, put *pb.PutResponse, deleted *pb.DeleteRangeResponse) model.Result {
	out := model.Result{Deleted: deleted.GetDeleted()}
	for _, kv := range slices.Concat(get.GetKvs(), []*mvccpb.KeyValue{put.GetPrevKv()}, deleted.GetPrevKvs()) {
		if kv != nil {
			out.KV = model.KV{
				Value: string(kv.GetValue()), CreateRevision: kv.GetCreateRevision(), ModRevision: kv.GetModRevision(), Version: kv.GetVersion(),
			}
		}
	}
	return out
}

// Watch implements [client.Watcher].
func (c Client) Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse] {
	if req.RequireLeader {
		ctx = clientv3.WithRequireLeader(ctx)
	}
	responses := c.Client.Watch(ctx, req.Key, watchOptions(req)...)
	return func(yield func(history.WatchResponse) bool) {
		for resp := range responses {
			if !yield(watchResponse(resp)) {
				return
			}
		}
	}
}

// watchOptions spells a request in the options of the client. RequireLeader is not
// among them: it is a property of the context.
func watchOptions(req history.WatchRequest) []clientv3.OpOption {
	opts := []clientv3.OpOption{clientv3.WithRev(req.StartRevision)}
	add := func(wanted bool, option clientv3.OpOption) {
		if wanted {
			opts = append(opts, option)
		}
	}
	add(req.RangeEnd != "", clientv3.WithRange(req.RangeEnd))
	add(req.PrevKV, clientv3.WithPrevKV())
	add(req.ProgressNotify, clientv3.WithProgressNotify())
	add(req.CreatedNotify, clientv3.WithCreatedNotify())
	add(req.Fragment, clientv3.WithFragment())
	add(req.NoPut, clientv3.WithFilterPut())
	add(req.NoDelete, clientv3.WithFilterDelete())
	return opts
}

// watchResponse turns a response of the client into one of a history.
func watchResponse(resp clientv3.WatchResponse) history.WatchResponse {
	return history.WatchResponse{
		Revision: resp.Header.GetRevision(), Created: resp.Created, Canceled: resp.Canceled,
		CompactRevision: resp.CompactRevision, Err: resp.Err(), Events: Events(resp.Events),
	}
}

// Events turns events as a server sends them into those of a history. Many watches
// see the same ones, so equal texts are kept once.
func Events(from []*mvccpb.Event) []history.Event {
	if len(from) == 0 {
		return nil
	}
	events := make([]history.Event, len(from))
	for i, e := range from {
		events[i] = history.Event{Type: e.Type, KeyValue: keyValue(e.Kv)}
		if e.PrevKv != nil {
			prev := keyValue(e.PrevKv)
			events[i].Prev = &prev
		}
	}
	return events
}

func keyValue(kv *mvccpb.KeyValue) history.KeyValue {
	return history.KeyValue{
		Key: unique.Make(string(kv.GetKey())).Value(), Value: unique.Make(string(kv.GetValue())).Value(),
		CreateRevision: kv.GetCreateRevision(), ModRevision: kv.GetModRevision(), Version: kv.GetVersion(), Lease: kv.GetLease(),
	}
}

// Grant implements [client.Lessor].
func (c Client) Grant(ctx context.Context, ttl time.Duration) (id int64, granted time.Duration, err error) {
	resp, err := c.Client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, 0, err
	}
	return int64(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

// Attach implements [client.Lessor].
func (c Client) Attach(ctx context.Context, id int64, key, value string) error {
	_, err := c.Put(ctx, key, value, clientv3.WithLease(clientv3.LeaseID(id)))
	return err
}

// KeepAlive implements [client.Lessor].
func (c Client) KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error] {
	ctx, until, reason := claims(ctx)
	renewals, err := c.Client.KeepAlive(ctx, clientv3.LeaseID(id))
	return func(yield func(time.Time, error) bool) {
		if err != nil {
			yield(time.Time{}, err)
			return
		}
		for renewal := range renewals {
			if !yield(until(renewal), nil) {
				return
			}
		}
		if err := reason(); err != nil {
			yield(time.Time{}, err)
		}
	}
}

// Session implements [client.Locker].
func (c Client) Session(ctx context.Context, ttl int) (client.Session, error) {
	s, err := concurrency.NewSession(c.Client, concurrency.WithContext(ctx), concurrency.WithTTL(ttl))
	if err != nil {
		return nil, err
	}
	return Session{s}, nil
}

// Session is a [client.Session].
type Session struct {
	*concurrency.Session
}

// Lease implements [client.Session].
func (s Session) Lease() int64 { return int64(s.Session.Lease()) }

// Handle implements [client.Session].
func (s Session) Handle(style lockcheck.Style, name string) client.Handle {
	if style == lockcheck.Campaign {
		e := concurrency.NewElection(s.Session, name)
		return client.Handle{
			Acquire: func(ctx context.Context) error { return e.Campaign(ctx, "") }, Release: e.Resign,
			Guard: func() client.Guard { return NewGuard(s.Client(), ownerOf(e)) },
		}
	}
	m := concurrency.NewMutex(s.Session, name)
	handle := client.Handle{Acquire: m.Lock, Release: m.Unlock, Guard: func() client.Guard { return NewGuard(s.Client(), m.IsOwner()) }}
	if style == lockcheck.TryLock {
		handle.Acquire = func(ctx context.Context) error {
			err := m.TryLock(ctx)
			if errors.Is(err, concurrency.ErrLocked) {
				return client.ErrLocked
			}
			return err
		}
	}
	return handle
}

// NewGuard makes a guard of what an owner compares.
func NewGuard(c *clientv3.Client, owner clientv3.Cmp) client.Guard {
	compared := owner.GetCompare()
	return client.Guard{
		Claim: lockcheck.Claim{Key: string(compared.GetKey()), Revision: compared.GetCreateRevision()},
		Write: func(ctx context.Context, key, value string) (bool, int64, error) {
			response, err := c.Txn(ctx).If(owner).Then(clientv3.OpPut(key, value)).Commit()
			if err != nil {
				return false, 0, err
			}
			return response.Succeeded, response.Header.GetRevision(), nil
		},
	}
}
