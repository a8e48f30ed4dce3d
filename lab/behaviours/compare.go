package behaviours

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

func compares(_ context.Context, _ Site, log *transcript.Log) {
	targets := map[string]clientv3.Cmp{
		"value": clientv3.Value("k"), "version": clientv3.Version("k"), "create": clientv3.CreateRevision("k"),
		"mod": clientv3.ModRevision("k"), "lease": clientv3.LeaseValue("k"), "zero": {},
		"unknown": clientv3.FromCompare(&pb.Compare{Target: 99}),
	}
	operands := []any{"s", 1, int64(2), clientv3.LeaseID(3), int32(4), uint64(5), []byte("b"), 1.5, nil}
	for _, name := range []string{"value", "version", "create", "mod", "lease", "zero", "unknown"} {
		cmp := targets[name]
		for _, operand := range operands {
			step := fmt.Sprintf("%s = %T", name, operand)
			log.Panic(step, func() {
				done := clientv3.Compare(cmp, "=", operand)
				log.Value(step+": message", done.GetCompare())
			})
		}
		log.Value(name+" is left as it was", cmp.GetCompare())
	}
	for _, result := range []string{"=", "!=", "<", ">", "==", "<=", ""} {
		log.Panic("result "+result, func() {
			done := clientv3.Compare(clientv3.Version("k"), result, 1)
			log.Value("result "+result+": message", done.GetCompare())
		})
	}
	compareMethods(log)
}

func compareMethods(log *transcript.Log) {
	cmp := clientv3.Compare(clientv3.Value("k"), "=", "v")
	ranged, prefixed := cmp.WithRange("z"), cmp.WithPrefix()
	log.Value("range", ranged.GetCompare())
	log.Value("prefix", prefixed.GetCompare())
	log.Value("left as it was", cmp.GetCompare())
	log.Value("key", cmp.KeyBytes())
	log.Value("value", cmp.ValueBytes())

	clone := cmp.Clone()
	clone.WithKeyBytes([]byte("other key"))
	clone.WithValueBytes([]byte("other value"))
	log.Value("changed clone", clone.GetCompare())
	log.Value("original of the clone", cmp.GetCompare())

	message := &pb.Compare{Key: []byte("m"), Target: pb.Compare_VERSION}
	from := clientv3.FromCompare(message)
	message.Key[0] = 'x'
	log.Value("from a message that changed since", from.GetCompare())
	nothing := clientv3.FromCompare(nil)
	log.Value("from nil", nothing.GetCompare())

	var zero clientv3.Cmp
	log.Value("zero key", zero.KeyBytes())
	log.Value("zero value", zero.ValueBytes())
	log.Value("zero clone", zero.Clone())
	zero.WithKeyBytes([]byte("k"))
	log.Value("zero with key", zero.GetCompare())
	log.Value("nil key", (*clientv3.Cmp)(nil).KeyBytes())
	log.Value("zero with range", func() *pb.Compare { c := clientv3.Cmp{}.WithRange("z"); return c.GetCompare() }())
	log.Value("zero with prefix", func() *pb.Compare { c := clientv3.Cmp{}.WithPrefix(); return c.GetCompare() }())

	version := clientv3.Compare(clientv3.Version("k"), "=", 1)
	log.Value("value of a version comparison", version.ValueBytes())
}
