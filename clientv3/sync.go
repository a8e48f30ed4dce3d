package clientv3

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/channel"
)

const (
	// syncTimeout bounds one update of auto-sync: a linearizable read that has
	// to wait for an election, and the probes.
	syncTimeout = 5 * time.Second

	// probeTimeout bounds the question whether an endpoint can be reached. It
	// covers a lost SYN (1 s) and a slow handshake.
	probeTimeout = 2 * time.Second

	// firstSync is the latest that auto-sync first runs.
	firstSync = time.Second

	// syncJitter is the fraction by which an interval varies.
	syncJitter = 0.1
)

// errNoVoters is returned by Sync when the membership would leave no endpoint.
var errNoVoters = errors.New("etcdclient: no started voting member advertises a client URL; the endpoints stay as they are")

// Sync replaces the endpoints by the client URLs that the cluster's members
// advertise. Learners, which serve few requests, and members that have not
// started yet are left out.
//
// Advertised URLs are not always reachable from where the client is. URLs that
// are new to it are tried first, and those that do not answer, or answer for
// another cluster, never take the place of endpoints that do: the client then
// keeps its working endpoints beside the advertised ones that work. It takes
// the membership as it is if it has no endpoint that works.
//
// It returns the error of the linearizable MemberList that it makes, or the end
// of ctx, and leaves the endpoints as they are then.
func (c *Client) Sync(ctx context.Context) error {
	resp, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	advertised := voterURLs(resp.Members)
	if len(advertised) == 0 {
		return errNoVoters
	}
	eps := c.reachable(ctx, resp.Header.GetClusterId(), advertised)
	if err := ctx.Err(); err != nil {
		return err // the probes were cut short, so their silence proves nothing
	}
	c.SetEndpoints(eps...)
	c.GetLogger().Debug("set the endpoints from the membership", zap.Strings("endpoints", channel.Redact(eps)))
	return nil
}

func voterURLs(members []*pb.Member) []string {
	var urls []string
	for _, m := range members {
		if m.Name != "" && !m.IsLearner {
			urls = append(urls, m.ClientURLs...)
		}
	}
	return urls
}

// reachable chooses the next endpoints among the advertised and the current ones.
func (c *Client) reachable(ctx context.Context, clusterID uint64, advertised []string) []string {
	current := c.Endpoints()
	fresh := without(advertised, current)
	if len(fresh) == 0 {
		return advertised
	}
	answering := c.probe(ctx, clusterID, append(fresh, current...))
	lost := without(fresh, answering)
	working := without(current, without(current, answering))
	if len(working) == 0 && c.connected() {
		working = current
	}
	if len(lost) == 0 || len(working) == 0 {
		return advertised
	}
	c.GetLogger().Warn("members advertise client URLs that do not answer from here; keeping the endpoints that do",
		zap.Strings("unreachable", channel.Redact(lost)), zap.Strings("kept", channel.Redact(working)))
	usable := without(advertised, lost)
	return append(usable, without(working, usable)...)
}

// connected reports whether the client has a connection to one of its endpoints.
func (c *Client) connected() bool {
	conn := c.ActiveConnection()
	return conn != nil && conn.GetState() == connectivity.Ready
}

func without(all, drop []string) []string {
	var rest []string
	for _, s := range all {
		if !slices.Contains(drop, s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// probe returns those of the endpoints that answer, asked all at once.
func (c *Client) probe(ctx context.Context, clusterID uint64, eps []string) []string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	ok := make([]bool, len(eps))
	var wg sync.WaitGroup
	for i, ep := range eps {
		wg.Go(func() { ok[i] = c.answers(ctx, clusterID, ep) })
	}
	wg.Wait()
	var answering []string
	for i, ep := range eps {
		if ok[i] {
			answering = append(answering, ep)
		}
	}
	return answering
}

// answers asks an endpoint for its status, once. Any answer of a server
// counts, even a refusal, unless it names another cluster.
func (c *Client) answers(ctx context.Context, clusterID uint64, ep string) bool {
	conn, err := c.Dial(ep)
	if err != nil {
		return false
	}
	defer conn.Close()
	resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(false))
	switch status.Code(err) {
	case codes.OK:
		id := resp.GetHeader().GetClusterId()
		return id == clusterID || clusterID == 0 || id == 0
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	default:
		return true
	}
}

// autoSync runs Sync until the client is closed, soon after the start and then
// at intervals.
func (c *Client) autoSync() {
	wait := rand.N(min(firstSync, c.cfg.AutoSyncInterval))
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(wait):
		}
		ctx, cancel := context.WithTimeout(c.ctx, syncTimeout)
		err := c.Sync(ctx)
		cancel()
		if err != nil && c.ctx.Err() == nil {
			c.GetLogger().Info("auto-sync failed; the endpoints stay as they are", zap.Error(err))
		}
		jitter := 1 + syncJitter*(2*rand.Float64()-1)
		wait = time.Duration(float64(c.cfg.AutoSyncInterval) * jitter)
	}
}
