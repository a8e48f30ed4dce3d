package linear

import (
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// plain is the response to an operation without comparisons.
func plain(revision int64, result model.Result) model.Response {
	return model.Response{Revision: revision, Succeeded: true, Results: []model.Result{result}}
}

// first returns the first key of a response, the absent key if there is none.
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

// noLease is a lease that does not exist: the run grants none.
const noLease = clientv3.LeaseID(1)

// options returns the options of an act that writes.
func options(act model.Act) []clientv3.OpOption {
	var opts []clientv3.OpOption
	if act.Prev {
		opts = append(opts, clientv3.WithPrevKV())
	}
	if act.Orphan {
		opts = append(opts, clientv3.WithLease(noLease))
	}
	return opts
}

func operations(keys [model.Keys]string, acts []model.Act) []clientv3.Op {
	ops := make([]clientv3.Op, len(acts))
	for i, act := range acts {
		switch key := keys[act.Key]; act.Verb {
		case model.Read:
			ops[i] = clientv3.OpGet(key)
		case model.Write:
			ops[i] = clientv3.OpPut(key, act.Value, options(act)...)
		case model.Remove:
			ops[i] = clientv3.OpDelete(key, options(act)...)
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
