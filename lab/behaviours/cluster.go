package behaviours

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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

// members makes each change once successfully and once with an error. The files protocol_* compare the answers of servers to
// other requests.
func members(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Step("list")(c.MemberList(ctx))
	log.Step("serializable list")(c.MemberList(ctx, clientv3.WithSerializable()))
	list := ok(c.MemberList(ctx))
	self := list.Members[0]

	change := func(step string) func(any, error) {
		settle(ctx, c)
		return log.Step(step)
	}
	change("add with a bad URL")(c.MemberAdd(ctx, []string{"not a URL"}))
	change("add with a URL in use")(c.MemberAdd(ctx, self.PeerURLs))
	change("update with a bad URL")(c.MemberUpdate(ctx, self.ID, []string{"not a URL"}))
	change("update an unknown member")(c.MemberUpdate(ctx, 12345, []string{"http://192.0.2.9:2380"}))
	change("update to the same URLs")(c.MemberUpdate(ctx, self.ID, self.PeerURLs))
	change("remove an unknown member")(c.MemberRemove(ctx, 12345))
	change("remove the only member")(c.MemberRemove(ctx, self.ID))
	change("promote an unknown member")(c.MemberPromote(ctx, 12345))
	change("promote a voter")(c.MemberPromote(ctx, self.ID))
	learner(ctx, c, log, change)
}

// settle waits until the members can be changed again: etcd 3.4 answers a change before raft has applied it, and
// silently drops another one until then. A later put that has been applied shows that the change has been, too.
func settle(ctx context.Context, c *clientv3.Client) {
	ok(c.Put(ctx, "members", "settled"))
}

func learner(ctx context.Context, c *clientv3.Client, log *transcript.Log, change func(step string) func(any, error)) {
	settle(ctx, c)
	added := ok(c.MemberAddAsLearner(ctx, []string{"http://192.0.2.9:2380"}))
	log.Value("added learner", added.Member)
	log.Value("members after adding", byName(added.Members))
	change("add a second learner")(c.MemberAddAsLearner(ctx, []string{"http://192.0.2.10:2380"}))
	change("promote a learner that never started")(c.MemberPromote(ctx, added.Member.ID))
	change("move leader to a learner")(c.MoveLeader(ctx, added.Member.ID))
	settle(ctx, c)
	updated := ok(c.MemberUpdate(ctx, added.Member.ID, []string{"http://192.0.2.9:2380", "http://192.0.2.9:2381"}))
	log.Value("members after updating", byName(updated.Members))
	change("remove the learner")(c.MemberRemove(ctx, added.Member.ID))
	log.Step("list")(c.MemberList(ctx))
}

func severalMembers(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	list := ok(c.MemberList(ctx))
	log.Value("list", byName(list.Members))
	log.Step("put")(c.Put(ctx, "several", "1"))
	for range c.Endpoints() {
		log.Step("get")(c.Get(ctx, "several"))
		log.Step("get, leader required")(c.Get(clientv3.WithRequireLeader(ctx), "several"))
	}
	const written = 2 // the revision of the put
	for i, endpoint := range c.Endpoints() {
		resp, err := c.Status(ctx, endpoint)
		for ; err == nil && resp.Header.Revision < written; resp, err = c.Status(ctx, endpoint) { // a follower may lag behind
			time.Sleep(10 * time.Millisecond)
		}
		must(err)
		log.Step(fmt.Sprintf("hash of m%d", i+1))(c.HashKV(ctx, endpoint, written))
		log.Value(fmt.Sprintf("version of m%d", i+1), resp.Version)
		log.Value(fmt.Sprintf("errors of m%d", i+1), resp.Errors)
	}

	added := ok(c.MemberAdd(ctx, []string{"http://192.0.2.9:2380"}))
	log.Value("added", added.Member)
	log.Value("members after adding", byName(added.Members))
	log.Step("put with a member that never started")(c.Put(ctx, "several", "2"))
	removed := ok(c.MemberRemove(ctx, added.Member.ID))
	log.Value("members after removing", byName(removed.Members))
}

// leadership asks members that lead, and members that do not, to hand over.
func leadership(ctx context.Context, at Site, log *transcript.Log) {
	everyone := at.client()
	defer end(everyone, log)
	for i := 0; ; i++ { // there may be an election
		endpoint := at.Endpoints[i%len(at.Endpoints)]
		own := ok(everyone.Status(ctx, endpoint))
		if own.Header.MemberId == own.Leader {
			handOver(ctx, at.with([]string{endpoint}), log, own.Leader)
			return
		}
	}
}

func handOver(ctx context.Context, leader Site, log *transcript.Log, id uint64) {
	c := leader.client()
	defer end(c, log)
	list := ok(c.MemberList(ctx))
	i := slices.IndexFunc(list.Members, func(m *pb.Member) bool { return m.ID != id })
	other := list.Members[i].ID
	log.Step("to an unknown member")(c.MoveLeader(ctx, 12345))
	log.Step("to the leader itself")(c.MoveLeader(ctx, id))
	log.Step("to another member")(c.MoveLeader(ctx, other))
	log.Step("from a member that does not lead")(c.MoveLeader(ctx, id))
	log.Step("put after the change")(c.Put(ctx, "leadership", "1"))
	log.Step("get after the change")(c.Get(ctx, "leadership"))
}
