package behaviours

import (
	"context"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// byName sorts the members of a response by name, because the order of their ids differs between clusters.
func byName(members []*pb.Member) []*pb.Member {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b *pb.Member) int { return strings.Compare(a.Name, b.Name) })
	return members
}

// members makes changes. The files protocol_* compare the answers of servers to other requests.
func members(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Step("list")(c.MemberList(ctx))
	log.Step("serializable list")(c.MemberList(ctx, clientv3.WithSerializable()))
	list := ok(c.MemberList(ctx))
	self := list.Members[0]

	// Before each change a put shows that the one before has been applied: etcd 3.4 answers earlier than that, and silently
	// drops another one until then.
	change := func(step string) func(any, error) {
		ok(c.Put(ctx, "members", "settled"))
		return log.Step(step)
	}
	change("add with a URL in use")(c.MemberAdd(ctx, self.PeerURLs))
	change("remove the only member")(c.MemberRemove(ctx, self.ID))

	added := ok(c.MemberAddAsLearner(ctx, []string{"http://192.0.2.9:2380"}))
	log.Value("added learner", added.Member)
	log.Value("members after adding", byName(added.Members))
	learner := added.Member.ID
	change("promote a learner that never started")(c.MemberPromote(ctx, learner))
	updated := ok(c.MemberUpdate(ctx, learner, []string{"http://192.0.2.9:2380", "http://192.0.2.9:2381"}))
	log.Value("members after updating", byName(updated.Members))
	change("remove the learner")(c.MemberRemove(ctx, learner))
	log.Step("list")(c.MemberList(ctx))
}
