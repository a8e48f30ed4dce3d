package official

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/contract"
	"github.com/quorate/quorate/lab/contract/transcript"
)

// noQuorum uses the last member that is left of a cluster. It is the end of the cluster.
func noQuorum(ctx context.Context, site contract.Site, log *transcript.Log) {
	const patience = 500 * time.Millisecond
	c := open(site, log)
	defer end(c, log)
	log.Step("put")(c.Put(ctx, "quorum", "1"))
	endpoint, err := site.Maroon()
	log.Must(err)
	c.SetEndpoints(endpoint)
	for { // until the member knows that it has no leader
		status, err := c.Status(ctx, endpoint)
		log.Must(err)
		if status.Leader == 0 {
			log.Value("errors in status", status.Errors)
			break
		}
	}
	log.Step("serializable get")(c.Get(ctx, "quorum", clientv3.WithSerializable()))
	log.Step("serializable member list")(count(c.MemberList(ctx, clientv3.WithSerializable())))

	// Calls are cancelled: a server knows their deadline, and its own answer that it has passed may come first.
	cancelled := func(call func(context.Context)) { withCancel(ctx, patience, call) }
	cancelled(func(ctx context.Context) { log.Step("cancelled: get")(c.Get(ctx, "quorum")) })
	cancelled(func(ctx context.Context) { log.Step("cancelled: put")(c.Put(ctx, "quorum", "2")) })
	cancelled(func(ctx context.Context) { log.Step("cancelled: member list")(count(c.MemberList(ctx))) })
	cancelled(func(ctx context.Context) { log.Error("cancelled: sync", c.Sync(ctx)) })
	// What is certainly not done may be tried again until the context ends, or not: either error tells the caller the truth.
	cancelled(func(ctx context.Context) {
		_, err := c.Get(clientv3.WithRequireLeader(ctx), "quorum")
		log.Value("leader required, cancelled: get", noLeaderOrEnd(err))
	})
	cancelled(func(ctx context.Context) {
		_, err := c.Get(clientv3.WithRequireLeader(ctx), "quorum", clientv3.WithSerializable())
		log.Value("leader required, cancelled: serializable get", noLeaderOrEnd(err))
	})
	cancelled(func(ctx context.Context) {
		_, err := c.Put(clientv3.WithRequireLeader(ctx), "quorum", "2")
		log.Value("leader required, cancelled: put", noLeaderOrEnd(err))
	})
}

func noLeaderOrEnd(err error) bool {
	return err == rpctypes.ErrNoLeader || err == context.Canceled //nolint:errorlint // programs compare with ==
}

// count returns the number of members: a cluster's order of them is its own.
func count(resp *clientv3.MemberListResponse, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(resp.Members), nil
}
