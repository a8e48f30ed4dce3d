package fakeetcd

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// listAlarms returns the active alarms of one type, or of all for NONE.
func (ms *membership) listAlarms(t pb.AlarmType) []*pb.AlarmMember {
	var out []*pb.AlarmMember
	for _, a := range ms.alarms {
		if t == pb.AlarmType_NONE || a.Alarm == t {
			out = append(out, proto.CloneOf(a))
		}
	}
	return out
}

// changeAlarm returns an alarm that is active now, or was until now: nil if there is none.
func (ms *membership) changeAlarm(r *pb.AlarmRequest) []*pb.AlarmMember {
	alarm := &pb.AlarmMember{MemberID: r.MemberID, Alarm: r.Alarm}
	i := slices.IndexFunc(ms.alarms, func(a *pb.AlarmMember) bool { return proto.Equal(a, alarm) })
	switch {
	case r.Action == pb.AlarmRequest_ACTIVATE && r.Alarm != pb.AlarmType_NONE:
		if i < 0 {
			ms.alarms = append(ms.alarms, proto.CloneOf(alarm))
		}
	case r.Action == pb.AlarmRequest_DEACTIVATE && i >= 0:
		ms.alarms = slices.Delete(ms.alarms, i, i+1)
	default:
		return nil
	}
	return []*pb.AlarmMember{alarm}
}

// maintenanceAlarm lets every user read alarms, and only administrators change them.
func maintenanceAlarm(c *Call, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	ms, allowed := c.cluster.membership, admins
	if r.Action == pb.AlarmRequest_GET {
		allowed = users
	}
	if err := allowed(c); err != nil {
		return nil, err
	}
	resp := &pb.AlarmResponse{Header: &pb.ResponseHeader{}}
	if r.Action == pb.AlarmRequest_GET {
		resp.Alarms = ms.listAlarms(r.Alarm)
	} else {
		resp.Alarms = ms.changeAlarm(r)
	}
	return resp, nil
}
