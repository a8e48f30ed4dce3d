package behaviours

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// hashes runs before maintenance because a hash covers lease ids, which are random: its keys have none.
func hashes(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	rev := seed(ctx, c, "hash/")
	log.Step("compact")(c.Compact(ctx, rev, clientv3.WithCompactPhysical()))
	log.Step("hash")(c.HashKV(ctx, c.Endpoints()[0], 0))
	log.Step("hash at a revision")(c.HashKV(ctx, c.Endpoints()[0], rev+2))
	log.Step("hash at a compacted revision")(c.HashKV(ctx, c.Endpoints()[0], 1))
}

func maintenance(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	endpoint := c.Endpoints()[0]
	log.Step("status")(c.Status(ctx, endpoint))
	log.Step("defragment")(c.Defragment(ctx, endpoint))

	list := ok(c.MemberList(ctx))
	log.Step("move leader to an unknown member")(c.MoveLeader(ctx, 12345))
	log.Step("move leader to the leader")(c.MoveLeader(ctx, list.Members[0].ID))
}

// alarms raises an alarm by hand, as a full store does.
func alarms(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	raw := pb.NewMaintenanceClient(c.ActiveConnection())
	list := ok(c.MemberList(ctx))
	member := list.Members[0].ID
	log.Alias(fmt.Sprint(member), "member id")
	raise := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: pb.AlarmType_NOSPACE}

	log.Step("none")(c.AlarmList(ctx))
	log.Step("raise")(raw.Alarm(ctx, raise))
	log.Step("list")(c.AlarmList(ctx))
	log.Step("put")(c.Put(ctx, "alarm", "1"))
	log.Step("get")(c.Get(ctx, "alarm"))
	log.Step("status")(c.Status(ctx, c.Endpoints()[0]))
	log.Step("disarm")(c.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: member, Alarm: pb.AlarmType_NOSPACE}))
	log.Step("raise again")(raw.Alarm(ctx, raise))
	log.Step("disarm all")(c.AlarmDisarm(ctx, &clientv3.AlarmMember{}))
	log.Step("none left")(c.AlarmList(ctx))
}

// whole reads a snapshot to its end, closes it, and says what is equal for all snapshots: their pages are not.
func whole(snapshot io.ReadCloser, err error) (string, error) {
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(snapshot)
	if err = cmp.Or(err, snapshot.Close()); err != nil {
		return "", err
	}
	pages := max(len(data)-sha256.Size, 0)
	sum := sha256.Sum256(data[:pages])
	return fmt.Sprintf("empty %t, pages and a digest %t, digest matches %t",
		pages == 0, len(data)%512 == sha256.Size, bytes.Equal(sum[:], data[pages:])), nil
}

func snapshots(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	ok(c.Put(ctx, "snapshot", string(make([]byte, 1<<20))))
	log.Step("whole")(whole(c.Snapshot(ctx)))
	resp := ok(c.SnapshotWithVersion(ctx))
	log.Value("header", resp.Header)
	log.Value("version", resp.Version)
	log.Step("whole with version")(whole(resp.Snapshot, nil))
	log.Step("clean up")(c.Delete(ctx, "snapshot"))
}
