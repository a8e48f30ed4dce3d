package clientv3_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

func TestAlarmDisarmAll(t *testing.T) {
	raised := []*pb.AlarmMember{
		{MemberID: 1, Alarm: pb.AlarmType_NOSPACE},
		{MemberID: 2, Alarm: pb.AlarmType_CORRUPT},
		{MemberID: 0, Alarm: pb.AlarmType_NONE}, // must not be sent, it means "all"
	}
	r := &recorder{answer: func(sent proto.Message) (proto.Message, error) {
		req := sent.(*pb.AlarmRequest)
		if req.Action == pb.AlarmRequest_GET {
			return &pb.AlarmResponse{Alarms: raised}, nil
		}
		return &pb.AlarmResponse{Alarms: []*pb.AlarmMember{{MemberID: req.MemberID, Alarm: req.Alarm}}}, nil
	}}
	m := NewMaintenanceFromMaintenanceClient(pb.NewMaintenanceClient(r), nil)
	resp, err := m.AlarmDisarm(t.Context(), &AlarmMember{})
	require.NoError(t, err)
	requireProto(t, &pb.AlarmResponse{Alarms: raised}, (*pb.AlarmResponse)(resp))
	require.Len(t, r.calls, 1+len(raised))
}

func TestAlarmDisarmAllStopsAtAnError(t *testing.T) {
	r := &recorder{}
	r.answer = func(proto.Message) (proto.Message, error) {
		if len(r.calls) == 1 {
			return &pb.AlarmResponse{Alarms: []*pb.AlarmMember{{MemberID: 1, Alarm: 1}, {MemberID: 2, Alarm: 1}}}, nil
		}
		return nil, rpctypes.ErrGRPCPermissionDenied
	}
	m := NewMaintenanceFromMaintenanceClient(pb.NewMaintenanceClient(r), nil)
	resp, err := m.AlarmDisarm(t.Context(), &AlarmMember{})
	require.Nil(t, resp)
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
	require.Len(t, r.calls, 2)

	_, err = m.AlarmDisarm(t.Context(), nil)
	require.ErrorContains(t, err, "no alarm to disarm")
}

// Callers of one endpoint share its connection, from the first call on.
func TestStatusForManyCallersAtOnce(t *testing.T) {
	for range 20 {
		cluster, c := clienttest.StartClient(t, 1)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := c.Status(t.Context(), cluster.Endpoints()[0])
				assert.NoError(t, err)
			})
		}
		all.Wait()
	}
}
