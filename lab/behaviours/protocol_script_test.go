package behaviours_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// The users of TestScript, beside root. The tokens of the last two are made up: one has the form of a token.
const (
	nobody   = ""
	alice    = "alice"
	mallory  = "mallory"
	mallory2 = "mallory with a token that is none"
)

// TestScript makes the calls of every service: without a user before authentication is enabled, then as every kind of user.
func TestScript(t *testing.T) {
	t.Parallel()
	all := readRequests(t)
	services := []string{"leases", "cluster", "maintenance"}
	etcd := settledEtcd(t)
	transcript := requireLikeEtcd(t, etcd, fakeEtcd(t), func(s *session) {
		s.tokens[mallory], s.tokens[mallory2] = "made.1", "up"
		s.call(&healthpb.HealthCheckRequest{})
		s.call(&healthpb.HealthCheckRequest{Service: "etcdserverpb.KV"})
		for _, unknown := range []string{"/etcdserverpb.KV/Increment", "/etcdserverpb.Cache/Get"} {
			s.callMethod(method{path: unknown, response: rangeStream.response}, &pb.RangeRequest{})
		}
		all.run(s, keyRequests...)
		all.run(s, services...)
		all.run(s, "users and roles", "enable authentication")
		for _, user := range []string{nobody, mallory, mallory2, alice, "root"} {
			s.as(user)
			for _, k := range []string{"a", "other"} {
				s.watching(func(s *watchSession) {
					s.create(key(k), 1)
				})
			}
			all.run(s, "users and roles")
			all.run(s, keyRequests...)
			all.run(s, services...)
			all.run(s, "enable authentication again")
		}
		all.run(s, "disable authentication")
		s.as(nobody)
		all.run(s, keyRequests...)
	})
	var succeeded []string
	for _, section := range all {
		for _, req := range section {
			succeeded = append(succeeded, methods[req.ProtoReflect().Descriptor().FullName()].path)
		}
	}
	reasons := make(map[string]bool) // why watches are refused
	for _, e := range transcript {
		for _, r := range e.Responses {
			if r, ok := r.(*pb.WatchResponse); ok {
				reasons[r.CancelReason] = true
			}
		}
	}
	require.Equal(t, map[string]bool{
		rpctypes.ErrGRPCUserEmpty.Error(): true, rpctypes.ErrGRPCInvalidAuthToken.Error(): true, rpctypes.ErrGRPCPermissionDenied.Error(): true, "": true,
	}, reasons)
	requireSeen(t, transcript, succeeded, []error{
		rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCPermissionDenied,
		rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCAuthNotEnabled,
		rpctypes.ErrGRPCRootUserNotExist, rpctypes.ErrGRPCRootRoleNotExist, rpctypes.ErrGRPCInvalidAuthMgmt,
		rpctypes.ErrGRPCUserAlreadyExist, rpctypes.ErrGRPCUserNotFound, rpctypes.ErrGRPCRoleAlreadyExist,
		rpctypes.ErrGRPCRoleNotFound, rpctypes.ErrGRPCRoleEmpty, rpctypes.ErrGRPCPermissionNotGiven,
		rpctypes.ErrGRPCLeaseTTLTooLarge,
	})
}

// requests are those of testdata/requests.txt, by section.
type requests map[string][]proto.Message

func readRequests(t *testing.T) requests {
	t.Helper()
	text, err := os.ReadFile("testdata/requests.txt")
	require.NoError(t, err)
	all, section := make(requests), ""
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case section == "key":
			// alice may read and write the first, read the second and write the third. The last is empty, which no key may be.
			for _, k := range []string{"a", "b", "y", ""} {
				all[k] = append(all[k], readRequest(t, strings.ReplaceAll(line, "$", k)))
			}
		default:
			all[section] = append(all[section], readRequest(t, line))
		}
	}
	return all
}

func readRequest(t *testing.T, line string) proto.Message {
	t.Helper()
	name, fields, _ := strings.Cut(line, " ")
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("etcdserverpb." + name))
	require.NoError(t, err)
	req := kind.New().Interface()
	require.NoError(t, prototext.Unmarshal([]byte(fields), req), line)
	return req
}

// keyRequests are the sections about access to keys.
var keyRequests = []string{"a", "b", "y", "", "compactions"}

// run makes the calls of sections.
func (all requests) run(s *session, sections ...string) {
	for _, section := range sections {
		for _, req := range all[section] {
			s.call(req)
		}
	}
}
