package clientv3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// DefragmentResponse is the response to [Maintenance.Defragment].
type DefragmentResponse pb.DefragmentResponse

// AlarmResponse is the response to [Maintenance.AlarmList] and
// [Maintenance.AlarmDisarm].
type AlarmResponse pb.AlarmResponse

// AlarmMember is an alarm and the member that raised it.
type AlarmMember pb.AlarmMember

// StatusResponse is the response to [Maintenance.Status].
type StatusResponse pb.StatusResponse

// HashKVResponse is the response to [Maintenance.HashKV].
type HashKVResponse pb.HashKVResponse

// MoveLeaderResponse is the response to [Maintenance.MoveLeader].
type MoveLeaderResponse pb.MoveLeaderResponse

// DowngradeResponse is the response to [Maintenance.Downgrade].
type DowngradeResponse pb.DowngradeResponse

// DowngradeAction selects what [Maintenance.Downgrade] does.
type DowngradeAction pb.DowngradeRequest_DowngradeAction

const (
	// DowngradeValidate checks whether the cluster could be downgraded.
	DowngradeValidate = DowngradeAction(pb.DowngradeRequest_VALIDATE)
	// DowngradeEnable begins a downgrade.
	DowngradeEnable = DowngradeAction(pb.DowngradeRequest_ENABLE)
	// DowngradeCancel cancels a downgrade in progress.
	DowngradeCancel = DowngradeAction(pb.DowngradeRequest_CANCEL)
)

// Maintenance inspects and maintains the members of the cluster. Methods that take
// an endpoint go only to that member, whether or not it is one of the client's
// endpoints; the connection is kept for the next such call. While no connection to it
// can be made they try again, until ctx ends or, if it has no deadline, for 15 s; they then
// return the error of the connection. For the other methods the client chooses the member.
type Maintenance interface {
	// AlarmList lists the alarms that are raised.
	AlarmList(ctx context.Context) (*AlarmResponse, error)

	// AlarmDisarm clears an alarm. A member id of 0 with AlarmType_NONE clears
	// every alarm that AlarmList lists.
	AlarmDisarm(ctx context.Context, m *AlarmMember) (*AlarmResponse, error)

	// Defragment makes the member release the space of deleted keys in its database
	// file. The member answers nothing else meanwhile: defragment one member at a
	// time.
	Defragment(ctx context.Context, endpoint string) (*DefragmentResponse, error)

	// Status returns the state of the member.
	Status(ctx context.Context, endpoint string) (*StatusResponse, error)

	// HashKV returns a hash of the member's keys at the given revision, or at the
	// latest if it is 0. Members that hold the same data return the same hash for
	// the same revision.
	HashKV(ctx context.Context, endpoint string, rev int64) (*HashKVResponse, error)

	// SnapshotWithVersion starts the download of a database snapshot from one
	// member. It returns when the first part has arrived; until then it is retried
	// after a fault until ctx ends. See [SnapshotResponse] for how to read it.
	SnapshotWithVersion(ctx context.Context) (*SnapshotResponse, error)

	// Snapshot is SnapshotWithVersion without the header and version.
	//
	// Deprecated: use SnapshotWithVersion.
	Snapshot(ctx context.Context) (io.ReadCloser, error)

	// MoveLeader transfers leadership to the member with the given id. The client asks
	// endpoints until one is the leader; if none is, the error is rpctypes.ErrNotLeader.
	MoveLeader(ctx context.Context, transfereeID uint64) (*MoveLeaderResponse, error)

	// Downgrade validates, begins or cancels the downgrade of the cluster to a
	// version of the form "3.6.0". It needs etcd 3.5 or later.
	Downgrade(ctx context.Context, action DowngradeAction, version string) (*DowngradeResponse, error)
}

type maintenance struct {
	remote   pb.MaintenanceClient
	at       func(endpoint string) (pb.MaintenanceClient, error)
	client   *Client
	callOpts []grpc.CallOption
}

// NewMaintenance returns the Maintenance service of a client.
func NewMaintenance(c *Client) Maintenance {
	c = orNone(c)
	return &maintenance{
		remote: ownMaintenance{pb.NewMaintenanceClient(c.transport())},
		at: func(endpoint string) (pb.MaintenanceClient, error) {
			conn, err := c.at(endpoint)
			if err != nil {
				return nil, fmt.Errorf("failed to dial endpoint with maintenance client: %w", err)
			}
			return pb.NewMaintenanceClient(conn), nil
		},
		client:   c,
		callOpts: c.callOpts,
	}
}

// NewMaintenanceFromMaintenanceClient returns the Maintenance service over remote,
// with the call options of c. c may be nil. Every call goes through remote,
// whichever endpoint it names.
func NewMaintenanceFromMaintenanceClient(remote pb.MaintenanceClient, c *Client) Maintenance {
	c = orNone(c)
	return &maintenance{
		remote:   remote,
		at:       func(string) (pb.MaintenanceClient, error) { return remote, nil },
		client:   c,
		callOpts: c.callOpts,
	}
}

func (m *maintenance) AlarmList(ctx context.Context) (*AlarmResponse, error) {
	return m.alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
}

func (m *maintenance) AlarmDisarm(ctx context.Context, am *AlarmMember) (*AlarmResponse, error) {
	if am == nil {
		return nil, errors.New("etcdclient: no alarm to disarm: pass an AlarmMember, an empty one for all alarms")
	}
	if am.MemberID == 0 && am.Alarm == pb.AlarmType_NONE {
		return m.disarmAll(ctx)
	}
	return m.disarm(ctx, am.MemberID, am.Alarm)
}

func (m *maintenance) disarmAll(ctx context.Context) (*AlarmResponse, error) {
	listed, err := m.AlarmList(ctx)
	if err != nil {
		return nil, err
	}
	all := &AlarmResponse{}
	for _, raised := range listed.Alarms {
		resp, err := m.disarm(ctx, raised.MemberID, raised.Alarm)
		if err != nil {
			return nil, err
		}
		all.Alarms = append(all.Alarms, resp.Alarms...)
	}
	return all, nil
}

func (m *maintenance) disarm(ctx context.Context, member uint64, alarm pb.AlarmType) (*AlarmResponse, error) {
	return m.alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: member, Alarm: alarm})
}

func (m *maintenance) alarm(ctx context.Context, req *pb.AlarmRequest) (*AlarmResponse, error) {
	resp, err := invoke(ctx, m.remote.Alarm, req, m.callOpts)
	return (*AlarmResponse)(resp), err
}

func (m *maintenance) Defragment(ctx context.Context, endpoint string) (*DefragmentResponse, error) {
	member, err := m.at(endpoint)
	if err != nil {
		return nil, ContextError(ctx, err)
	}
	resp, err := invoke(ctx, member.Defragment, &pb.DefragmentRequest{}, m.callOpts)
	return (*DefragmentResponse)(resp), err
}

func (m *maintenance) Status(ctx context.Context, endpoint string) (*StatusResponse, error) {
	member, err := m.at(endpoint)
	if err != nil {
		return nil, ContextError(ctx, err)
	}
	resp, err := invoke(ctx, member.Status, &pb.StatusRequest{}, m.callOpts)
	return (*StatusResponse)(resp), err
}

func (m *maintenance) HashKV(ctx context.Context, endpoint string, rev int64) (*HashKVResponse, error) {
	member, err := m.at(endpoint)
	if err != nil {
		return nil, ContextError(ctx, err)
	}
	resp, err := invoke(ctx, member.HashKV, &pb.HashKVRequest{Revision: rev}, m.callOpts)
	return (*HashKVResponse)(resp), err
}

func (m *maintenance) MoveLeader(ctx context.Context, transfereeID uint64) (*MoveLeaderResponse, error) {
	resp, err := invoke(ctx, m.remote.MoveLeader, &pb.MoveLeaderRequest{TargetID: transfereeID}, m.callOpts)
	return (*MoveLeaderResponse)(resp), err
}

func (m *maintenance) Downgrade(ctx context.Context, action DowngradeAction, version string) (*DowngradeResponse, error) {
	switch action {
	case DowngradeValidate, DowngradeEnable, DowngradeCancel:
	default:
		return nil, errors.New("etcdclient: unknown downgrade action")
	}
	req := &pb.DowngradeRequest{Action: pb.DowngradeRequest_DowngradeAction(action), Version: version}
	resp, err := invoke(ctx, m.remote.Downgrade, req, m.callOpts)
	return (*DowngradeResponse)(resp), err
}

// ErrSnapshotDigest is returned by the last read of a snapshot that does not match
// the digest at its end. The data is truncated or corrupt and must not be restored.
var ErrSnapshotDigest = errors.New(
	"etcdclient: snapshot does not match its SHA-256 digest: it is truncated or corrupt, download it again")

// SnapshotResponse is a snapshot that is being downloaded.
type SnapshotResponse struct {
	// Header is the header of the stream's first message. It is nil if the server
	// sends none; etcd up to 3.7 sends none.
	Header *pb.ResponseHeader

	// Snapshot delivers the database file, followed by the 32 bytes of its SHA-256
	// digest. Each read fetches what it needs and updates the digest: io.EOF means
	// that the digest matches, [ErrSnapshotDigest] that it does not. A broken
	// download cannot be resumed; reads return the error that broke it. Once the
	// context of the call has ended, reads return its error.
	//
	// Read it until an error or close it; otherwise it holds a stream until the
	// context ends. Close may be called during a read, and ends it.
	Snapshot io.ReadCloser

	// Version is the storage version of the member, which determines the etcd
	// versions that can restore the snapshot. It is empty before etcd 3.6.
	Version string
}

func (m *maintenance) SnapshotWithVersion(ctx context.Context) (*SnapshotResponse, error) {
	retrier := m.client.retrier(pb.Maintenance_Snapshot_FullMethodName)
	remote := over(m.client, retrier, m.remote, pb.NewMaintenanceClient)
	for {
		first, reader, err := openSnapshot(ctx, remote, m.callOpts)
		if err == nil {
			return &SnapshotResponse{
				Header:   first.GetHeader(),
				Snapshot: reader,
				Version:  first.GetVersion(),
			}, nil
		}
		if err := retrier.Next(ctx, err); err != nil {
			return nil, ContextError(ctx, err)
		}
	}
}

func (m *maintenance) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	resp, err := m.SnapshotWithVersion(ctx)
	if err != nil {
		return nil, err
	}
	return resp.Snapshot, nil
}

// openSnapshot opens a stream and waits for its first message, nil if there is none.
func openSnapshot(
	ctx context.Context, remote pb.MaintenanceClient, opts []grpc.CallOption,
) (*pb.SnapshotResponse, *snapshotReader, error) {
	streamCtx, cancel := context.WithCancel(ctx)
	stream, err := remote.Snapshot(streamCtx, &pb.SnapshotRequest{}, opts...)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	first, err := stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return nil, nil, err
	}
	r := &snapshotReader{ctx: ctx, streamCtx: streamCtx, cancel: cancel, stream: stream, digest: digestCheck{sum: sha256.New()}}
	r.accept(first, err)
	return first, r, nil
}

// snapshotReader reads a snapshot stream. It has no goroutine: a read that finds
// the buffer empty receives the next message, and flow control stops the server in
// between.
type snapshotReader struct {
	ctx       context.Context // the caller's
	streamCtx context.Context // derives from it
	cancel    context.CancelFunc
	stream    pb.Maintenance_SnapshotClient

	// mu guards what follows: one read at a time.
	mu     sync.Mutex
	left   []byte // received and not yet read
	digest digestCheck
	err    error // the result of every read from now on
}

func (r *snapshotReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if err := r.ended(); err != nil {
			return 0, err
		}
		if len(r.left) > 0 || len(p) == 0 {
			n := copy(p, r.left)
			r.left = r.left[n:]
			return n, nil
		}
		r.accept(r.stream.Recv())
	}
}

// ended returns the error of further reads, nil while there may be more data.
func (r *snapshotReader) ended() error {
	switch {
	case r.err != nil:
	case r.ctx.Err() != nil:
		r.err = r.ctx.Err()
	case r.streamCtx.Err() != nil:
		r.err = io.ErrClosedPipe
	}
	return r.err
}

// accept processes a message of the stream, or the error that ends it.
func (r *snapshotReader) accept(msg *pb.SnapshotResponse, err error) {
	switch {
	case err == nil:
		r.left = msg.GetBlob()
		r.digest.add(r.left)
		return
	case errors.Is(err, io.EOF):
		r.err = r.digest.result()
	case r.ended() == nil:
		r.err = ContextError(r.ctx, err)
	}
	r.cancel()
}

// Close ends the stream. It is safe to call at any time and more than once.
func (r *snapshotReader) Close() error {
	r.cancel()
	return nil
}

// digestCheck hashes a stream that ends with the SHA-256 digest of all that comes
// before. The last bytes received may be the digest, so they are not hashed yet.
type digestCheck struct {
	sum  hash.Hash
	tail []byte // at most sha256.Size bytes
}

func (d *digestCheck) add(p []byte) {
	d.tail = append(d.tail, p...)
	body := max(len(d.tail)-sha256.Size, 0)
	d.sum.Write(d.tail[:body])
	d.tail = append(d.tail[:0], d.tail[body:]...)
}

// result returns io.EOF if the stream ended with its digest.
func (d *digestCheck) result() error {
	if len(d.tail) != sha256.Size || !bytes.Equal(d.sum.Sum(nil), d.tail) {
		return ErrSnapshotDigest
	}
	return io.EOF
}
