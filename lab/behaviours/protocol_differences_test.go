package behaviours_test

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// level removes from a message, and from those within it, what may differ between the fake and etcd beyond what package
// transcript leaves out. Everything else must be equal.
func level(m proto.Message) {
	switch m := m.(type) {
	case *pb.Member: // its name and URLs follow from its configuration
		m.Name = mask(m.Name)
		maskAll(m.PeerURLs)
		maskAll(m.ClientURLs)
	case *pb.MemberAddRequest: // it names the member by its URLs
		maskAll(m.PeerURLs)
	case *pb.StatusResponse: // alarms are texts of protobuf, whose spaces differ from one program to another
		for i, e := range m.Errors {
			m.Errors[i] = strings.Join(strings.Fields(e), " ")
		}
	case *pb.HashResponse: // the fake has no database file: its hashes are not those of etcd, and may be 0
		m.Hash = 0
	case *pb.HashKVResponse:
		m.Hash = 0
	case *pb.LeaseTimeToLiveResponse: // etcd lists the keys of a lease in the random order of a map
		slices.SortFunc(m.Keys, bytes.Compare)
	case *pb.LeaseLeasesResponse: // etcd lists leases by the time at which they end, of which the fake has none
		slices.SortFunc(m.Leases, func(a, b *pb.LeaseStatus) int { return cmp.Compare(a.ID, b.ID) })
	case interface{ GetMembers() []*pb.Member }: // etcd lists them in the order of their peer URLs, the fake in that of their coming
		slices.SortStableFunc(m.GetMembers(), func(a, b *pb.Member) int {
			return cmp.Compare(strconv.FormatBool(a.IsLearner), strconv.FormatBool(b.IsLearner))
		})
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

// mask leaves of a text only whether there is one.
func mask(v string) string {
	if v == "" {
		return ""
	}
	return "(masked)"
}

func maskAll(vs []string) {
	for i := range vs {
		vs[i] = mask(vs[i])
	}
}
