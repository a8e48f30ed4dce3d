package clientv3

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The two types of an [Event].
const (
	EventTypeDelete = mvccpb.Event_DELETE
	EventTypePut    = mvccpb.Event_PUT
)

const (
	// AutoWatchID stands for an id that the server chooses. The client chooses
	// its own.
	AutoWatchID = 0

	// InvalidWatchID is the id in responses that belong to no single watch.
	InvalidWatchID = -1
)

// Event is one change of one key. A program may keep any part of it: the part holds no more than 512 bytes of the rest
// in memory.
type Event = mvccpb.Event

// WatchChan delivers the responses of a watch, and is closed when it has ended.
type WatchChan <-chan WatchResponse

// Watcher watches keys.
type Watcher interface {
	// Watch watches a key, or the range of keys that the options ask for, and
	// delivers every change of it from the revision in [WithRev] on, or from the
	// call on if there is none. It returns when a server has created the watch,
	// or when ctx has ended.
	//
	// A watch is ordered, without gaps and duplicates, and never splits a
	// revision, whatever it lived through: lost connections, members that come
	// and go, leaders that change, tokens that expire. It does not end by itself
	// but for one of these reasons, which its last response tells ([WatchResponse.Err]):
	//
	//   - a revision that it has yet to deliver was compacted (rpctypes.ErrCompacted),
	//   - the server refuses it, for want of permission for instance
	//     (rpctypes.ErrPermissionDenied),
	//   - the cluster is another one, or was restored from a backup
	//     (*[ClusterChangedError]),
	//   - ctx was made by [WithRequireLeader] and no endpoint that can be reached
	//     knows a leader (rpctypes.ErrNoLeader).
	//
	// A reader who is slow holds up nobody. What it has not read yet is kept, up to
	// Config.MaxWatchBufferBytes, and less when the watches of the client together keep
	// much (MaxTotalWatchBufferBytes); past that the watch pauses, and goes on when the
	// reader has read half of it. A paused watch costs the server nothing. Only if the revision at which it paused has been
	// compacted by then does it end with rpctypes.ErrCompacted and a CancelReason
	// that says so.
	//
	// When ctx ends, or the watcher or its client is closed, the channel is closed
	// without a last response. A program must end ctx when it no longer reads the
	// channel. If ctx has ended before the call,
	// or the watcher is closed, the channel is closed from the beginning.
	Watch(ctx context.Context, key string, opts ...OpOption) WatchChan

	// RequestProgress asks the server to tell all watches whose contexts have the
	// same outgoing metadata as ctx up to which revision they have seen everything.
	// They receive a response for which [WatchResponse.IsProgressNotify] is true; a
	// server that is still sending them older events does not answer. The error is
	// that of ctx, or says that the watcher is closed.
	RequestProgress(ctx context.Context) error

	// Close ends all watches; their channels are closed. It returns nil.
	Close() error
}

// WatchResponse is what a [WatchChan] delivers: events, or news of the watch
// itself.
type WatchResponse struct {
	// Header is that of the server's response. It is never nil.
	Header *pb.ResponseHeader
	// Events are in the order of their revisions, and hold either all changes of
	// a revision or none.
	Events []*Event

	// CompactRevision is the oldest revision that the server still has, in the
	// last response of a watch that needed an older one.
	CompactRevision int64

	// Canceled marks the last response of a watch that failed. Err tells why.
	Canceled bool

	// Created marks the response that [WithCreatedNotify] asks for.
	Created bool

	closeErr error
	proven   bool

	// CancelReason says in words why the watch was cancelled. It may be empty.
	CancelReason string
}

// Err returns why the watch ended, and nil for every response but the last. It
// is the server's error, comparable with ==, where the server ended the watch.
func (wr *WatchResponse) Err() error {
	switch {
	case wr.closeErr != nil:
		return rpctypes.Error(wr.closeErr)
	case wr.CompactRevision != 0:
		return rpctypes.ErrCompacted
	case wr.Canceled && wr.CancelReason != "":
		return rpctypes.Error(status.Error(codes.FailedPrecondition, wr.CancelReason))
	case wr.Canceled:
		return rpctypes.ErrFutureRev
	default:
		return nil
	}
}

// IsProgressNotify reports whether the response tells nothing but that all
// events up to its header's revision have been delivered.
func (wr *WatchResponse) IsProgressNotify() bool {
	return len(wr.Events) == 0 && !wr.Canceled && !wr.Created && wr.CompactRevision == 0 && wr.Header.GetRevision() != 0
}

// IsProven reports whether the progress of the server that sent the response can be relied on: when
// [WatchResponse.IsProgressNotify] is true, every event up to the revision of the header has been
// delivered before. It is set for progress, and for the response that [WithCreatedNotify] asks for.
// It is false for kine and the grpc-proxy, for etcd before 3.4.25 and 3.5.8, which may answer
// before they have sent everything, and over a client of the program's own.
func (wr *WatchResponse) IsProven() bool { return wr.proven }
