package quorate

import (
	"cmp"
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

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
