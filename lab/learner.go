package lab

import (
	"context"
	"errors"
	"fmt"
	"os"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/internal/fatal"
)

// BecomeLearner replaces the member by a learner: it is killed, removed from the cluster, added
// again as a learner, and started without data, at the same endpoint and with another id. The
// others must have a majority without it. Nothing promotes it. BecomeLearner returns when the
// learner serves, and fails when ctx ends, or after Config.StartTimeout.
func (m *Member) BecomeLearner(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cluster.cfg.StartTimeout)
	defer cancel()
	id := m.ID()
	err := fatal.Catch(func() {
		fatal.If(m.Kill())
		m.cluster.reconfigure(ctx, rpctypes.ErrMemberNotFound, func(client pb.ClusterClient) error {
			_, err := client.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id})
			return err
		})
		peer := "https://" + peerAddress(m.index)
		m.cluster.reconfigure(ctx, rpctypes.ErrPeerURLExist, func(client pb.ClusterClient) error {
			_, err := client.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{peer}, IsLearner: true})
			return err
		})
		fatal.If(os.RemoveAll(m.cluster.file(m.name)))
	})
	if err != nil {
		return fmt.Errorf("lab: make %s a learner: %w", m.name, err)
	}
	m.mu.Lock()
	m.joins = true
	m.mu.Unlock()
	return m.start(ctx)
}

// reconfigure requests a change of the membership from the leader until it is made: etcd refuses
// changes until its members have been connected for five seconds, unless --strict-reconfig-check
// is false. done is the error that means that an earlier request, whose answer was lost, has made
// the change. An error ends it, see package fatal.
func (c *Cluster) reconfigure(ctx context.Context, done error, change func(pb.ClusterClient) error) {
	fatal.If(c.poll(ctx, func(ctx context.Context) error {
		leader, err := c.findLeader(ctx)
		if err != nil {
			return err
		}
		err = change(pb.NewClusterClient(leader.control))
		if errors.Is(rpctypes.Error(err), done) {
			return nil
		}
		return err
	}))
}
