package clientv3

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/channel"
)

// Member is a member of the cluster.
type Member pb.Member

// MemberListResponse is the response to [Cluster.MemberList].
type MemberListResponse pb.MemberListResponse

// MemberAddResponse is the response to [Cluster.MemberAdd] and
// [Cluster.MemberAddAsLearner].
type MemberAddResponse pb.MemberAddResponse

// MemberRemoveResponse is the response to [Cluster.MemberRemove].
type MemberRemoveResponse pb.MemberRemoveResponse

// MemberUpdateResponse is the response to [Cluster.MemberUpdate].
type MemberUpdateResponse pb.MemberUpdateResponse

// MemberPromoteResponse is the response to [Cluster.MemberPromote].
type MemberPromoteResponse pb.MemberPromoteResponse

// Cluster reads and changes the membership of the cluster. MemberList is repeated
// after a fault; changes reach a server at most once and give a
// *retry.UnknownOutcomeError when their outcome is unknown.
//
// Peer addresses are URLs of the form http://host:port or https://host:port, without
// a path. Others are refused before anything is sent.
type Cluster interface {
	// MemberList lists the members. With [WithSerializable] the member that gets
	// the request answers from its own state, which needs no leader.
	MemberList(ctx context.Context, opts ...OpOption) (*MemberListResponse, error)

	// MemberAdd adds a voting member with the given peer addresses.
	MemberAdd(ctx context.Context, peerAddrs []string) (*MemberAddResponse, error)

	// MemberAddAsLearner adds a member that receives the log but has no vote.
	MemberAddAsLearner(ctx context.Context, peerAddrs []string) (*MemberAddResponse, error)

	// MemberRemove removes the member with the given id.
	MemberRemove(ctx context.Context, id uint64) (*MemberRemoveResponse, error)

	// MemberUpdate replaces the peer addresses of the member with the given id.
	MemberUpdate(ctx context.Context, id uint64, peerAddrs []string) (*MemberUpdateResponse, error)

	// MemberPromote gives the learner with the given id a vote. A learner that lags
	// behind the leader is refused with rpctypes.ErrMemberLearnerNotReady.
	MemberPromote(ctx context.Context, id uint64) (*MemberPromoteResponse, error)
}

type cluster struct {
	remote   pb.ClusterClient
	callOpts []grpc.CallOption
}

// NewCluster returns the Cluster service of a client.
func NewCluster(c *Client) Cluster {
	return NewClusterFromClusterClient(RetryClusterClient(c), c)
}

// NewClusterFromClusterClient returns the Cluster service over remote, with the
// call options of c. c may be nil.
func NewClusterFromClusterClient(remote pb.ClusterClient, c *Client) Cluster {
	return &cluster{remote: remote, callOpts: orNone(c).callOpts}
}

func (c *cluster) MemberList(ctx context.Context, opts ...OpOption) (*MemberListResponse, error) {
	op := OpGet("", opts...)
	req := &pb.MemberListRequest{Linearizable: !op.serializable}
	resp, err := invoke(ctx, c.remote.MemberList, req, c.callOpts)
	return (*MemberListResponse)(resp), err
}

func (c *cluster) MemberAdd(ctx context.Context, peerAddrs []string) (*MemberAddResponse, error) {
	return c.add(ctx, &pb.MemberAddRequest{PeerURLs: peerAddrs})
}

func (c *cluster) MemberAddAsLearner(ctx context.Context, peerAddrs []string) (*MemberAddResponse, error) {
	return c.add(ctx, &pb.MemberAddRequest{PeerURLs: peerAddrs, IsLearner: true})
}

func (c *cluster) add(ctx context.Context, req *pb.MemberAddRequest) (*MemberAddResponse, error) {
	if err := checkPeerURLs(req.PeerURLs); err != nil {
		return nil, err
	}
	resp, err := invoke(ctx, c.remote.MemberAdd, req, c.callOpts)
	return (*MemberAddResponse)(resp), err
}

func (c *cluster) MemberRemove(ctx context.Context, id uint64) (*MemberRemoveResponse, error) {
	resp, err := invoke(ctx, c.remote.MemberRemove, &pb.MemberRemoveRequest{ID: id}, c.callOpts)
	return (*MemberRemoveResponse)(resp), err
}

func (c *cluster) MemberUpdate(ctx context.Context, id uint64, peerAddrs []string) (*MemberUpdateResponse, error) {
	if err := checkPeerURLs(peerAddrs); err != nil {
		return nil, err
	}
	req := &pb.MemberUpdateRequest{ID: id, PeerURLs: peerAddrs}
	resp, err := invoke(ctx, c.remote.MemberUpdate, req, c.callOpts)
	return (*MemberUpdateResponse)(resp), err
}

func (c *cluster) MemberPromote(ctx context.Context, id uint64) (*MemberPromoteResponse, error) {
	resp, err := invoke(ctx, c.remote.MemberPromote, &pb.MemberPromoteRequest{ID: id}, c.callOpts)
	return (*MemberPromoteResponse)(resp), err
}

// checkPeerURLs rejects URLs that would crash a server when it applies the change.
func checkPeerURLs(urls []string) error {
	_, err := types.NewURLs(urls)
	return err
}

const (
	// syncTimeout bounds one update of auto-sync: a linearizable read that may wait
	// for an election, and the probes.
	syncTimeout = 5 * time.Second

	// probeTimeout bounds the probe of one endpoint. It covers a lost SYN (1 s) and
	// a slow handshake.
	probeTimeout = 2 * time.Second

	// maxAdvertised bounds the client URLs of a cluster: each is probed and gets a connection.
	maxAdvertised = 1000

	// firstSync bounds the random delay of the first auto-sync.
	firstSync = time.Second

	// minSyncInterval bounds the load of clients whose interval lacks its unit: 30 is 30 ns.
	minSyncInterval = time.Second

	// maxSyncInterval is as good as never, and a longer one would overflow with the jitter.
	maxSyncInterval = math.MaxInt64 / 2

	// syncJitter is the fraction by which an interval varies.
	syncJitter = 0.1
)

var (
	// errNoVoters is returned by Sync when the membership would leave no endpoint.
	errNoVoters = errors.New("etcdclient: no started voting member advertises a client URL; the endpoints are unchanged")

	// errNoneSecure is returned by Sync if all advertised URLs are plaintext and the
	// client may not use them.
	errNoneSecure = errors.New("etcdclient: all advertised client URLs are plaintext, and the client uses TLS; the endpoints are unchanged: " +
		insecureAdvice)
)

const insecureAdvice = "have the members advertise https URLs (--advertise-client-urls), or set Config.AllowInsecureSync"

// Sync replaces the endpoints with the client URLs that the cluster's members
// advertise. It skips learners, which serve few requests, and members that have not
// started yet.
//
// Advertised URLs are not always reachable from the client. Sync probes new URLs
// first. If some do not answer, are answered by another member or cluster, or are those
// of several members, the client keeps its working endpoints together with the advertised
// ones that work. If it has no working endpoint, it uses all advertised URLs. So if a member advertises
// http://localhost:2379, a client beside another member keeps the endpoint by which it reaches the first, unless
// it has http://localhost:2379 itself.
//
// A client that has TLS configured, or an endpoint that uses TLS, does not connect to
// advertised http URLs, except those that are also in Config.Endpoints or SetEndpoints.
// It logs a warning that names the skipped URLs. [Config.AllowInsecureSync] turns this
// off.
//
// Sync fails with the error of its linearizable MemberList, with ctx's error, or with
// an error that says why the client can use none of the advertised URLs. The
// endpoints are then unchanged, as they are if SetEndpoints is called meanwhile: Sync then
// returns nil.
func (c *Client) Sync(ctx context.Context) error {
	named := c.namedEndpoints()
	resp, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	found := c.advertised(resp.Members)
	if n := len(found.usable) + len(found.plaintext); n > maxAdvertised {
		return fmt.Errorf("etcdclient: the members advertise %d client URLs, more than %d; the endpoints are unchanged", n, maxAdvertised)
	}
	c.warnOfPlaintext(found.plaintext)
	switch {
	case len(found.usable) > 0:
	case len(found.plaintext) > 0:
		return errNoneSecure
	default:
		return errNoVoters
	}
	eps := c.reachable(ctx, resp.Header.GetClusterId(), found)
	if err := ctx.Err(); err != nil {
		return err // ctx ended the probes early, so silence proves nothing
	}
	if c.channel != nil && c.channel.SetFoundEndpoints(eps, named) {
		c.GetLogger().Debug("set the endpoints from the membership", zap.Strings("endpoints", channel.Redact(eps)))
	}
	return nil
}

// advertisement holds the client URLs of the started voting members.
type advertisement struct {
	usable    []string
	plaintext []string            // skipped plaintext URLs
	members   map[string][]uint64 // the IDs of the members that advertise a usable URL
	// hidden says that some member has no usable URL of its own. All may have etcd's default, http://localhost:2379.
	hidden bool
}

func (c *Client) advertised(members []*pb.Member) advertisement {
	a := advertisement{members: make(map[string][]uint64)}
	for _, m := range members {
		if m.Name == "" || m.IsLearner {
			continue
		}
		usable, plaintext := m.ClientURLs, []string(nil)
		if c.channel != nil {
			usable, plaintext = c.channel.SplitFound(m.ClientURLs)
		}
		own := without(usable, a.usable)
		a.usable = append(a.usable, own...)
		a.plaintext = append(a.plaintext, plaintext...)
		a.hidden = a.hidden || len(own) == 0 && len(m.ClientURLs) > 0
		for _, url := range usable {
			a.members[url] = append(a.members[url], m.ID)
		}
	}
	return a
}

// namedEndpoints returns how often the program has set the endpoints.
func (c *Client) namedEndpoints() uint64 {
	if c.channel == nil {
		return 0
	}
	return c.channel.Named()
}

// warnOfPlaintext logs the skipped endpoints, once until they change.
func (c *Client) warnOfPlaintext(plaintext []string) {
	names := strings.Join(channel.Redact(plaintext), " ")
	if last := c.leftOut.Swap(&names); names == "" || last != nil && *last == names {
		return
	}
	c.GetLogger().Warn("members advertise plaintext client URLs, and the client uses TLS; skipping these URLs",
		zap.Strings("left-out", channel.Redact(plaintext)), zap.String("advice", insecureAdvice))
}

// reachable chooses the next endpoints from the advertised and the current ones. It
// keeps working current ones while an advertised one does not answer or a member is
// hidden: they may belong to that member.
func (c *Client) reachable(ctx context.Context, clusterID uint64, found advertisement) []string {
	advertised, current := found.usable, c.Endpoints()
	fresh := without(advertised, current)
	if len(fresh) == 0 && !found.hidden {
		return advertised
	}
	answering := c.probe(ctx, clusterID, found.members, append(fresh, current...))
	lost := without(fresh, answering)
	working := without(current, without(current, answering))
	if len(working) == 0 && c.connected() {
		working = current
	}
	if len(lost) == 0 && !found.hidden || len(working) == 0 {
		return advertised
	}
	if len(lost) > 0 {
		c.GetLogger().Warn("members advertise client URLs at which this client does not reach them; keeping the working endpoints",
			zap.Strings("unreachable", channel.Redact(lost)), zap.Strings("kept", channel.Redact(working)))
	}
	usable := without(advertised, lost)
	return append(usable, without(working, usable)...)
}

// connected reports whether the client has a connection to one of its endpoints.
func (c *Client) connected() bool {
	conn := c.ActiveConnection()
	return conn != nil && conn.GetState() == connectivity.Ready
}

func without(all, drop []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(drop, s) })
}

// probe returns the endpoints that answer as one of their members, if those are known. It probes all
// concurrently.
func (c *Client) probe(ctx context.Context, clusterID uint64, members map[string][]uint64, eps []string) []string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answering := slices.Clone(eps)
	var wg sync.WaitGroup
	for i, ep := range eps {
		wg.Go(func() {
			if !c.answers(ctx, clusterID, members[ep], ep) {
				answering[i] = ""
			}
		})
	}
	wg.Wait()
	return without(answering, []string{""})
}

// answers requests the status of an endpoint, once. Any response counts, even an
// error, unless it names another cluster or member.
func (c *Client) answers(ctx context.Context, clusterID uint64, members []uint64, ep string) bool {
	conn, err := c.Dial(ep)
	if err != nil {
		return false
	}
	defer conn.Close()
	resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(false))
	switch status.Code(err) {
	case codes.OK:
		header := resp.GetHeader()
		return isOneOf(header.GetClusterId(), clusterID) && (members == nil || isOneOf(header.GetMemberId(), members...))
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	default:
		return true
	}
}

// isOneOf reports whether an ID may be one of those that are expected; 0 stands for an unknown one, as proxies give it.
func isOneOf(id uint64, expected ...uint64) bool {
	return id == 0 || slices.Contains(expected, id) || slices.Contains(expected, 0)
}

// autoSync runs Sync until the client is closed, soon after the start and then
// at intervals.
func (c *Client) autoSync() {
	interval := min(c.cfg.AutoSyncInterval, maxSyncInterval)
	wait := rand.N(min(firstSync, interval))
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
			c.GetLogger().Info("auto-sync failed; the endpoints are unchanged", zap.Error(err))
		}
		jitter := 1 + syncJitter*(2*rand.Float64()-1)
		wait = max(minSyncInterval, time.Duration(float64(interval)*jitter))
	}
}
