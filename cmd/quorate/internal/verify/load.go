package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/retry"
)

// load makes operations at the rate until the duration is over or ctx ends, and waits for the last,
// which end with lasting.
func (r *run) load(ctx, lasting context.Context) {
	end := r.begin.Add(r.cfg.Duration)
	turns := make(chan struct{})
	var wg sync.WaitGroup
	for client := range groups * clients {
		wg.Go(func() {
			for range turns {
				r.operate(lasting, client)
			}
		})
	}
	tick := time.NewTicker(time.Second / time.Duration(r.cfg.Rate))
	defer tick.Stop()
	for time.Now().Before(end) && ctx.Err() == nil {
		select {
		case <-tick.C:
			select { // without a reader a turn is left out
			case turns <- struct{}{}:
			default:
			}
		case <-ctx.Done():
		}
	}
	close(turns)
	wg.Wait()
}

// operate makes one operation on the keys of the client's group, and notes it.
func (r *run) operate(ctx context.Context, client int) {
	group := client % groups
	op := model.Operation{Client: client, Request: r.request()}
	ctx, cancel := r.limited(ctx)
	defer cancel()
	op.Call = time.Since(r.begin)
	response, err := r.do(ctx, group, op.Request)
	op.Return = time.Since(r.begin)
	switch {
	case err == nil:
		op.Response = response
	case op.Request.Kind.Writes() && retry.OutcomeOf(err) != retry.OutcomeNotExecuted:
		op.Outcome, op.Err = model.Unknown, err.Error()
	default:
		op.Outcome, op.Err = model.Failed, err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.histories[group] = append(r.histories[group], op)
}

// request chooses one.
func (r *run) request() model.Request {
	key, other := rand.IntN(model.Keys), rand.IntN(model.Keys)
	switch n := rand.IntN(100); {
	case n < 30:
		return model.Request{Kind: model.Get, Then: []model.Act{{Key: key}}}
	case n < 40:
		return model.Request{Kind: model.SerializableGet, Then: []model.Act{{Key: key}}}
	case n < 70:
		return model.Request{Kind: model.Put, Then: []model.Act{{Verb: model.Write, Key: key, Value: r.value(), Prev: true}}}
	case n < 80:
		return model.Request{Kind: model.Delete, Then: []model.Act{{Verb: model.Remove, Key: key, Prev: true}}}
	default:
		return model.Request{
			Kind: model.Txn, If: []model.Compare{{Key: key, Target: model.Version}}, // it is absent
			Then: []model.Act{{Verb: model.Write, Key: key, Value: r.value()}}, Else: []model.Act{{Key: key}, {Key: other}},
		}
	}
}

func (r *run) value() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values++
	return fmt.Sprint("v", r.values)
}

func (r *run) key(group, key int) string { return fmt.Sprintf("%s%d/%d", r.prefix, group, key) }

func (r *run) do(ctx context.Context, group int, request model.Request) (model.Response, error) {
	kv, act := r.cfg.Client.KV, request.Then[0]
	key := r.key(group, act.Key)
	switch request.Kind {
	case model.Get, model.SerializableGet:
		var opts []clientv3.OpOption
		if request.Kind == model.SerializableGet {
			opts = append(opts, clientv3.WithSerializable())
		}
		resp, err := kv.Get(ctx, key, opts...)
		if err != nil {
			return model.Response{}, err
		}
		return plain(resp.Header.Revision, model.Result{KV: first(resp.Kvs)}), nil
	case model.Put:
		resp, err := kv.Put(ctx, key, act.Value, clientv3.WithLease(r.lease), clientv3.WithPrevKV())
		if err != nil {
			return model.Response{}, err
		}
		return plain(resp.Header.Revision, model.Result{KV: shown(resp.PrevKv)}), nil
	case model.Delete:
		resp, err := kv.Delete(ctx, key, clientv3.WithPrevKV())
		if err != nil {
			return model.Response{}, err
		}
		return plain(resp.Header.Revision, model.Result{KV: first(resp.PrevKvs), Deleted: resp.Deleted}), nil
	default:
		return r.txn(ctx, group, request)
	}
}

// txn creates a key that is absent, or reads two.
func (r *run) txn(ctx context.Context, group int, request model.Request) (model.Response, error) {
	create := request.Then[0]
	key := r.key(group, create.Key)
	reads := make([]clientv3.Op, len(request.Else))
	for i, act := range request.Else {
		reads[i] = clientv3.OpGet(r.key(group, act.Key))
	}
	resp, err := r.cfg.Client.Txn(ctx).If(clientv3.Compare(clientv3.Version(key), "=", 0)).
		Then(clientv3.OpPut(key, create.Value, clientv3.WithLease(r.lease))).Else(reads...).Commit()
	if err != nil {
		return model.Response{}, err
	}
	out := model.Response{Revision: resp.Header.Revision, Succeeded: resp.Succeeded}
	for _, part := range resp.Responses {
		var result model.Result
		if read, ok := part.Response.(*etcdserverpb.ResponseOp_ResponseRange); ok {
			result.KV = first(read.ResponseRange.Kvs)
		}
		out.Results = append(out.Results, result)
	}
	return out, nil
}

// plain returns the response to an operation without comparisons.
func plain(revision int64, result model.Result) model.Response {
	return model.Response{Revision: revision, Succeeded: true, Results: []model.Result{result}}
}

func first(kvs []*mvccpb.KeyValue) model.KV {
	if len(kvs) == 0 {
		return model.KV{}
	}
	return shown(kvs[0])
}

func shown(kv *mvccpb.KeyValue) model.KV {
	return model.KV{
		Value: string(kv.GetValue()), CreateRevision: kv.GetCreateRevision(), ModRevision: kv.GetModRevision(), Version: kv.GetVersion(),
	}
}
