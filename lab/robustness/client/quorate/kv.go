package quorate

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// NewKV returns a KV that makes its operations through a client: plain gets, puts and deletes by the methods of
// those names. All puts have the options.
func NewKV(kv clientv3.KV, puts ...clientv3.OpOption) client.KV { return modelKV{kv, puts} }

// modelKV executes the requests of the model.
type modelKV struct {
	kv   clientv3.KV
	puts []clientv3.OpOption
}

// noLease does not exist: the ids of leases are larger.
const noLease = clientv3.LeaseID(1)

func (k modelKV) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	act := request.Then[0]
	key, opts := keys[act.Key], k.options(act)
	switch request.Kind {
	case model.Get, model.SerializableGet:
		if request.Kind == model.SerializableGet {
			opts = append(opts, clientv3.WithSerializable())
		}
		resp, err := k.kv.Get(ctx, key, opts...)
		if err != nil {
			return model.Response{}, err
		}
		return plain(resp.Header, result((*pb.RangeResponse)(resp), nil, nil)), nil
	case model.Put:
		resp, err := k.kv.Put(ctx, key, act.Value, opts...)
		if err != nil {
			return model.Response{}, err
		}
		return plain(resp.Header, result(nil, (*pb.PutResponse)(resp), nil)), nil
	case model.Delete:
		resp, err := k.kv.Delete(ctx, key, opts...)
		if err != nil {
			return model.Response{}, err
		}
		return plain(resp.Header, result(nil, nil, (*pb.DeleteRangeResponse)(resp))), nil
	default:
		return k.txn(ctx, keys, request)
	}
}

func (k modelKV) txn(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	resp, err := k.kv.Txn(ctx).
		If(comparisons(keys, request.If)...).
		Then(k.operations(keys, request.Then)...).
		Else(k.operations(keys, request.Else)...).
		Commit()
	if err != nil {
		return model.Response{}, err
	}
	out := model.Response{Revision: resp.Header.GetRevision(), Succeeded: resp.Succeeded}
	for _, r := range resp.Responses {
		out.Results = append(out.Results, result(r.GetResponseRange(), r.GetResponsePut(), r.GetResponseDeleteRange()))
	}
	return out, nil
}

// options returns the options of an act.
func (k modelKV) options(act model.Act) []clientv3.OpOption {
	var opts []clientv3.OpOption
	if act.Verb == model.Write {
		opts = slices.Clone(k.puts)
	}
	if act.Prev {
		opts = append(opts, clientv3.WithPrevKV())
	}
	if act.MissingLease {
		opts = append(opts, clientv3.WithLease(noLease))
	}
	return opts
}

func (k modelKV) operations(keys [model.Keys]string, acts []model.Act) []clientv3.Op {
	ops := make([]clientv3.Op, len(acts))
	for i, act := range acts {
		switch key, opts := keys[act.Key], k.options(act); act.Verb {
		case model.Read:
			ops[i] = clientv3.OpGet(key, opts...)
		case model.Write:
			ops[i] = clientv3.OpPut(key, act.Value, opts...)
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

// plain is the response to an operation without comparisons.
func plain(header *pb.ResponseHeader, result model.Result) model.Response {
	return model.Response{Revision: header.GetRevision(), Succeeded: true, Results: []model.Result{result}}
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
