package behaviours_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

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
