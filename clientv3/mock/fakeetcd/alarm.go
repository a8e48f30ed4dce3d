package fakeetcd

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// listAlarms returns the active alarms of one type, or of all for NONE.
func (ms *membership) listAlarms(t pb.AlarmType) []*pb.AlarmMember {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	var out []*pb.AlarmMember
	for _, a := range ms.alarms {
		if t == pb.AlarmType_NONE || a.Alarm == t {
			out = append(out, proto.CloneOf(a))
		}
	}
	return out
}

// activateAlarm activates and returns the alarm, which may already be active.
func (ms *membership) activateAlarm(id uint64, t pb.AlarmType) []*pb.AlarmMember {
	if t == pb.AlarmType_NONE {
		return nil
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	alarm := &pb.AlarmMember{MemberID: id, Alarm: t}
	if ms.alarmLocked(alarm) < 0 {
		ms.alarms = append(ms.alarms, proto.CloneOf(alarm))
	}
	return []*pb.AlarmMember{alarm}
}

// deactivateAlarm deactivates and returns the alarm, nil if it was not active.
func (ms *membership) deactivateAlarm(id uint64, t pb.AlarmType) []*pb.AlarmMember {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	alarm := &pb.AlarmMember{MemberID: id, Alarm: t}
	i := ms.alarmLocked(alarm)
	if i < 0 {
		return nil
	}
	ms.alarms = slices.Delete(ms.alarms, i, i+1)
	return []*pb.AlarmMember{alarm}
}

func (ms *membership) alarmLocked(alarm *pb.AlarmMember) int {
	return slices.IndexFunc(ms.alarms, func(a *pb.AlarmMember) bool { return proto.Equal(a, alarm) })
}

// maintenanceAlarm lets every user read alarms, and only administrators change them.
func maintenanceAlarm(c *Call, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	check := c.cluster.auth.RequireAdmin
	if r.Action == pb.AlarmRequest_GET {
		check = c.cluster.auth.RequireUser
	}
	if err := c.require(check); err != nil {
		return nil, err
	}
	resp := &pb.AlarmResponse{Header: &pb.ResponseHeader{}}
	ms := c.cluster.membership
	switch r.Action {
	case pb.AlarmRequest_GET:
		resp.Alarms = ms.listAlarms(r.Alarm)
	case pb.AlarmRequest_ACTIVATE:
		resp.Alarms = ms.activateAlarm(r.MemberID, r.Alarm)
	case pb.AlarmRequest_DEACTIVATE:
		resp.Alarms = ms.deactivateAlarm(r.MemberID, r.Alarm)
	}
	return resp, nil
}
