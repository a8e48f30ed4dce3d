package behaviours_test

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// variation is something that may differ between the fake and etcd beyond what package transcript leaves out, and how to
// level it in a message.
type variation struct {
	why   string
	level func(proto.Message)
}

// variations lists all that may differ. Everything else must be equal.
var variations = []variation{
	{
		"a member's ID, name and URLs follow from its configuration",
		in(func(m *pb.Member) {
			maskText(&m.Name)
			maskTexts(m.PeerURLs)
			maskTexts(m.ClientURLs)
		}),
	},
	{
		"etcd lists members in the order of their peer URLs, the fake in the order of their coming",
		func(m proto.Message) {
			if r, ok := m.(interface{ GetMembers() []*pb.Member }); ok {
				slices.SortStableFunc(r.GetMembers(), votersFirst)
			}
		},
	},
	{
		"a request names a member by its URLs",
		in(func(r *pb.MemberAddRequest) { maskTexts(r.PeerURLs) }),
	},
	{
		"alarms are texts of protobuf, whose spaces differ from one program to another",
		in(func(s *pb.StatusResponse) {
			for i, e := range s.Errors {
				s.Errors[i] = strings.Join(strings.Fields(e), " ")
			}
		}),
	},
	{
		"the fake has no database file: its hashes are not those of etcd, and may be 0",
		in(func(h *pb.HashResponse) { h.Hash = 0 }),
	},
	{
		"the same for the hash of the keys",
		in(func(h *pb.HashKVResponse) { h.Hash = 0 }),
	},
	{
		"etcd lists the keys of a lease in the random order of a map",
		in(func(l *pb.LeaseTimeToLiveResponse) { slices.SortFunc(l.Keys, bytes.Compare) }),
	},
	{
		"etcd lists leases by the time at which they end, of which the fake has none",
		in(func(l *pb.LeaseLeasesResponse) {
			slices.SortFunc(l.Leases, func(a, b *pb.LeaseStatus) int { return cmp.Compare(a.ID, b.ID) })
		}),
	},
}

func votersFirst(a, b *pb.Member) int {
	switch {
	case a.IsLearner == b.IsLearner:
		return 0
	case a.IsLearner:
		return 1
	default:
		return -1
	}
}

// level removes from a message, and from those within it, what may differ.
func level(m proto.Message) {
	for _, d := range variations {
		d.level(m)
	}
	m.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				level(v.List().Get(i).Message().Interface())
			}
		default:
			level(v.Message().Interface())
		}
		return true
	})
}

// in makes a change that is made in messages of one type, and in no other.
func in[M proto.Message](change func(M)) func(proto.Message) {
	return func(m proto.Message) {
		if m, ok := m.(M); ok {
			change(m)
		}
	}
}

// maskText leaves of a text only whether there is one.
func maskText(v *string) {
	if *v != "" {
		*v = "(masked)"
	}
}

func maskTexts(vs []string) {
	for i := range vs {
		maskText(&vs[i])
	}
}
