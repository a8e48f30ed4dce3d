package behaviours

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers/site"
)

// eachCall makes one call of every kind with ctx and records its outcome.
func eachCall(ctx context.Context, c *clientv3.Client, log *transcript.Log, name string) {
	endpoint := c.Endpoints()[0]
	log.Step(name + ": get")(c.Get(ctx, "context"))
	log.Step(name + ": serializable get")(c.Get(ctx, "context", clientv3.WithSerializable()))
	log.Step(name + ": read-only txn")(c.Txn(ctx).Then(clientv3.OpGet("context")).Commit())
	log.Step(name + ": time to live")(c.TimeToLive(ctx, 1))
	log.Step(name + ": leases")(c.Leases(ctx))
	log.Step(name + ": member list")(c.MemberList(ctx))
	log.Step(name + ": user list")(c.UserList(ctx))
	log.Step(name + ": alarm list")(c.AlarmList(ctx))
	log.Step(name + ": put")(c.Put(ctx, "context", "1"))
	log.Step(name + ": delete")(c.Delete(ctx, "context"))
	log.Step(name + ": txn")(c.Txn(ctx).Then(clientv3.OpPut("context", "1")).Commit())
	log.Step(name + ": compact")(c.Compact(ctx, 1))
	log.Step(name + ": grant")(c.Grant(ctx, 3600))
	log.Step(name + ": revoke")(c.Revoke(ctx, 1))
	log.Step(name + ": keep alive once")(c.KeepAliveOnce(ctx, 1))
	log.Step(name + ": member remove")(c.MemberRemove(ctx, 1))
	log.Step(name + ": user add")(c.UserAdd(ctx, "context", "p"))
	log.Step(name + ": authenticate")(c.Authenticate(ctx, "context", "p"))
	log.Step(name + ": status")(c.Status(ctx, endpoint))
	_, err := c.HashKV(ctx, endpoint, 0) // it covers lease ids, which are random
	log.Error(name+": hash", err)
	log.Step(name + ": defragment")(c.Defragment(ctx, endpoint))
	log.Step(name + ": move leader")(c.MoveLeader(ctx, 1))
	log.Step(name + ": stream")(gather(c.GetStream(ctx, "context")))
	log.Step(name + ": snapshot")(whole(c.Snapshot(ctx)))
	log.Error(name+": sync", c.Sync(ctx))
}

func endedContexts(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	eachCall(cancelled, c, log, "cancelled")
	expired, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	defer cancel()
	eachCall(expired, c, log, "expired")
	log.Step("nothing was written")(c.Get(ctx, "context"))
}

// frozen makes calls that are sent and not answered. It does not check what the server does with them when it
// continues.
func frozen(ctx context.Context, at Site, log *transcript.Log) {
	const timeout = 150 * time.Millisecond
	c := at.client()
	defer end(c, log)
	log.Step("before")(c.Get(ctx, "frozen"))
	at.do(ctx, site.Stop)
	defer at.do(ctx, site.Continue)
	sent(ctx, c, log, timeout)
}

// sent makes calls whose context ends while they are under way, after a time.
func sent(ctx context.Context, c *clientv3.Client, log *transcript.Log, after time.Duration) {
	sentWithin(c, log, "expires", func(call func(context.Context)) { withDeadline(ctx, after, call) })
	sentWithin(c, log, "is cancelled", func(call func(context.Context)) { withCancel(ctx, after, call) })
}

func sentWithin(c *clientv3.Client, log *transcript.Log, name string, within func(func(context.Context))) {
	within(func(ctx context.Context) { log.Step(name + ": get")(c.Get(ctx, "frozen")) })
	within(func(ctx context.Context) { log.Step(name + ": put")(c.Put(ctx, "frozen", "1")) })
	within(func(ctx context.Context) { log.Step(name + ": keep alive once")(c.KeepAliveOnce(ctx, 1)) })
	within(func(ctx context.Context) { receive(log, name+": watch", c.Watch(ctx, "frozen")) })
	within(func(ctx context.Context) { log.Step(name + ": member list")(c.MemberList(ctx)) })
	within(func(ctx context.Context) { log.Step(name + ": stream")(gather(c.GetStream(ctx, "frozen"))) })
	within(func(ctx context.Context) { log.Step(name + ": snapshot")(whole(c.Snapshot(ctx))) })
}

func withDeadline(ctx context.Context, d time.Duration, call func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	call(ctx)
}

func withCancel(ctx context.Context, d time.Duration, call func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(d, cancel).Stop()
	call(ctx)
}

// files connects with a configuration that was read from a specification.
func files(ctx context.Context, at Site, log *transcript.Log) {
	specs := map[string]*clientv3.SecureConfig{
		"CA and certificate": {Cacert: at.Files.CA, Cert: at.Files.ClientCert, Key: at.Files.ClientKey},
		"no verification":    {InsecureSkipVerify: true},
		"insecure":           {InsecureTransport: true},
		"server name":        {Cacert: at.Files.CA, ServerName: "localhost"},
		"wrong server name":  {Cacert: at.Files.CA, ServerName: "wrong"},
		"no CA":              {},
		"none":               nil,
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		spec := &clientv3.ConfigSpec{Endpoints: at.Endpoints, Secure: specs[name]}
		cfg := ok(clientv3.NewClientConfig(spec, zap.NewNop()))
		cfg.Logger = zap.NewNop()
		logConfig(log, name, cfg)
		c := ok(clientv3.New(*cfg))
		// The name in the certificate is to be that of the endpoint, whatever the server name of the configuration.
		if refused := at.Files.CA != "" && slices.Contains([]string{"no CA", "none", "insecure"}, name); refused {
			withDeadline(ctx, 300*time.Millisecond, func(ctx context.Context) { log.Step(name + ", expires: get")(c.Get(ctx, "files")) })
		} else {
			log.Step(name + ": get")(c.Get(ctx, "files"))
		}
		log.Error(name+": close", c.Close())
	}
}

// closes uses clients after their end.
func closes(ctx context.Context, at Site, log *transcript.Log) {
	c := at.client()
	log.Step("get")(c.Get(ctx, "close"))
	conn := c.ActiveConnection()
	log.Error("close", c.Close())
	log.Error("context", c.Ctx().Err())
	log.Error("close again", c.Close())
	_, err := c.Get(ctx, "close")
	log.Error("get after close", err)
	log.Value("get after close: connection is closed", clientv3.IsConnCanceled(err))
	_, err = c.Snapshot(ctx)
	log.Value("snapshot after close fails", err != nil)
	log.Value("connection", conn.GetState().String())
}

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
