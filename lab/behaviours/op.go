package behaviours

import (
	"context"
	"fmt"
	"reflect"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// facts returns what the accessors of an Op say: all methods without parameters, but for those that only Quorate has.
func facts(op clientv3.Op) map[string]any {
	all := make(map[string]any)
	for method, value := range reflect.ValueOf(op).Methods() {
		if method.Type.NumIn() > 1 || method.Name == "LeaseID" || method.Name == "SortOption" {
			continue
		}
		for i, result := range value.Call(nil) {
			all[fmt.Sprint(method.Name, i)] = result.Interface()
		}
	}
	return all
}

// option is an OpOption with its name.
type option struct {
	name string
	opt  clientv3.OpOption
}

func options() []option {
	return []option{
		{"WithLease", clientv3.WithLease(7)},
		{"WithLimit", clientv3.WithLimit(7)},
		{"WithRev", clientv3.WithRev(7)},
		{"WithSort", clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend)},
		{"WithSort by key", clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend)},
		{"WithSort of an unknown target", clientv3.WithSort(-1, clientv3.SortAscend)},
		{"WithSort of an unknown order", clientv3.WithSort(clientv3.SortByKey, 3)},
		{"WithPrefix", clientv3.WithPrefix()},
		{"WithRange", clientv3.WithRange("z")},
		{"WithRange to nothing", clientv3.WithRange("")},
		{"WithFromKey", clientv3.WithFromKey()},
		{"WithSerializable", clientv3.WithSerializable()},
		{"WithKeysOnly", clientv3.WithKeysOnly()},
		{"WithCountOnly", clientv3.WithCountOnly()},
		{"WithMinModRev", clientv3.WithMinModRev(7)},
		{"WithMaxModRev", clientv3.WithMaxModRev(7)},
		{"WithMinCreateRev", clientv3.WithMinCreateRev(7)},
		{"WithMaxCreateRev", clientv3.WithMaxCreateRev(7)},
		{"WithProgressNotify", clientv3.WithProgressNotify()},
		{"WithCreatedNotify", clientv3.WithCreatedNotify()},
		{"WithFilterPut", clientv3.WithFilterPut()},
		{"WithFilterDelete", clientv3.WithFilterDelete()},
		{"WithPrevKV", clientv3.WithPrevKV()},
		{"WithFragment", clientv3.WithFragment()},
		{"WithIgnoreValue", clientv3.WithIgnoreValue()},
		{"WithIgnoreLease", clientv3.WithIgnoreLease()},
		{"WithWatchBufLog", clientv3.WithWatchBufLog()},
	}
}

func ops(_ context.Context, _ Site, log *transcript.Log) {
	log.Value("zero op", facts(clientv3.Op{}))
	log.Value("new op", facts(*clientv3.NewOp()))
	log.Value("put", facts(clientv3.OpPut("k", "v")))
	log.Value("delete", facts(clientv3.OpDelete("k")))
	for _, key := range []string{"", "k", "k\xff", "\xff\xff", "\x00"} {
		for _, o := range options() {
			log.Value(fmt.Sprintf("get %q %s", key, o.name), facts(clientv3.OpGet(key, o.opt)))
		}
		log.Value(fmt.Sprintf("end of prefix %q", key), clientv3.GetPrefixRangeEnd(key))
	}
	for _, o := range options() {
		opts := []clientv3.OpOption{o.opt}
		log.Value("is prefix: "+o.name, clientv3.IsOptsWithPrefix(opts))
		log.Value("is from key: "+o.name, clientv3.IsOptsWithFromKey(opts))
	}
	txn := clientv3.OpTxn([]clientv3.Cmp{clientv3.Value("a"), clientv3.Version("b")},
		[]clientv3.Op{clientv3.OpGet("a")}, []clientv3.Op{})
	log.Value("txn", facts(txn))
	log.Value("empty txn", facts(clientv3.OpTxn(nil, nil, nil)))

	op := clientv3.OpPut("k", "v")
	op.WithKeyBytes([]byte("changed key"))
	op.WithRangeBytes([]byte("changed end"))
	op.WithValueBytes([]byte("changed value"))
	log.Value("changed", facts(op))
}

// opPanics passes every option to every builder. Some of them panic.
func opPanics(_ context.Context, _ Site, log *transcript.Log) {
	builders := []struct {
		name  string
		build func(...clientv3.OpOption) clientv3.Op
	}{
		{"get", func(opts ...clientv3.OpOption) clientv3.Op { return clientv3.OpGet("k", opts...) }},
		{"put", func(opts ...clientv3.OpOption) clientv3.Op { return clientv3.OpPut("k", "v", opts...) }},
		{"delete", func(opts ...clientv3.OpOption) clientv3.Op { return clientv3.OpDelete("k", opts...) }},
		{"watch", func(opts ...clientv3.OpOption) clientv3.Op { return clientv3.OpWatch("k", opts...) }},
	}
	for _, b := range builders {
		for _, o := range options() {
			log.Panic(b.name+" "+o.name, func() { log.Value(b.name+" "+o.name+": op", facts(b.build(o.opt))) })
		}
		log.Panic(b.name+" prefix and from key", func() { b.build(clientv3.WithPrefix(), clientv3.WithFromKey()) })
		log.Panic(b.name+" from key and prefix", func() { b.build(clientv3.WithFromKey(), clientv3.WithPrefix()) })
		log.Panic(b.name+" several faults", func() { b.build(clientv3.WithRev(1), clientv3.WithLimit(1), clientv3.WithFilterPut()) })
	}
}

func compares(_ context.Context, _ Site, log *transcript.Log) {
	for i, target := range []clientv3.Cmp{
		clientv3.Value("k"), clientv3.Version("k"), clientv3.CreateRevision("k"), clientv3.ModRevision("k"), clientv3.LeaseValue("k"),
		{},
		clientv3.FromCompare(&pb.Compare{Target: 99}),
	} {
		for _, operand := range []any{"s", 1, int64(2), clientv3.LeaseID(3), int32(4), uint64(5), []byte("b"), 1.5, nil} {
			step := fmt.Sprintf("%d = %T", i, operand)
			log.Panic(step, func() {
				done := clientv3.Compare(target, "=", operand)
				log.Value(step+": message", done.GetCompare())
			})
		}
		log.Value(fmt.Sprint(i, " is left as it was"), target.GetCompare())
	}
	for _, result := range []string{"=", "!=", "<", ">", "==", "<=", ""} {
		log.Panic("result "+result, func() {
			done := clientv3.Compare(clientv3.Version("k"), result, 1)
			log.Value("result "+result+": message", done.GetCompare())
		})
	}

	cmp := clientv3.Compare(clientv3.Value("k"), "=", "v")
	clone := cmp.Clone()
	clone.WithKeyBytes([]byte("other key"))
	clone.WithValueBytes([]byte("other value"))
	log.Value("changed clone", clone.GetCompare())
	message := &pb.Compare{Key: []byte("m"), Target: pb.Compare_VERSION}
	from := clientv3.FromCompare(message)
	message.Key[0] = 'x'
	log.Value("from a message that changed since", from.GetCompare())
	for i, cmp := range []clientv3.Cmp{{}, clientv3.FromCompare(nil), clientv3.Compare(clientv3.Version("k"), "=", 1), cmp} {
		log.Value(fmt.Sprint(i, ": key and value"), [][]byte{cmp.KeyBytes(), cmp.ValueBytes()})
		ranged, prefixed := cmp.WithRange("z"), cmp.WithPrefix()
		log.Value(fmt.Sprint(i, ": range and prefix"), []*pb.Compare{ranged.GetCompare(), prefixed.GetCompare()})
	}
}
