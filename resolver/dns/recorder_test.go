package dns

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// Any host can send packets to a client; only the reply to its query counts.
func TestRecorderIgnoresForeignMessages(t *testing.T) {
	name := dnsmessage.MustNewName("svc.test.")
	query := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	reply := func(change func(m *dnsmessage.Message)) []byte {
		m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, Response: true}, Questions: append([]dnsmessage.Question(nil), query.Questions...)}
		m.Answers = []dnsmessage.Resource{addr("svc.test.", "10.0.0.1", 5)}
		change(&m)
		b, err := m.Pack()
		require.NoError(t, err)
		return b
	}
	asked, err := query.Pack()
	require.NoError(t, err)
	good := reply(func(*dnsmessage.Message) {})
	recorder := newRecorder()
	for _, b := range [][]byte{
		nil,
		{1},
		good[:11], asked,
		reply(func(m *dnsmessage.Message) { m.ID = 8 }),
		reply(func(m *dnsmessage.Message) { m.Response = false }),
		reply(func(m *dnsmessage.Message) { m.Questions[0].Type = dnsmessage.TypeAAAA }),
		reply(func(m *dnsmessage.Message) { m.Questions[0].Name = dnsmessage.MustNewName("other.test.") }),
		reply(func(m *dnsmessage.Message) { m.Questions = nil }),
		reply(func(m *dnsmessage.Message) { m.Truncated = true }),
	} {
		recorder.observe(recorder.sending(asked), b)
	}
	recorder.observe(recorder.sending(nil), good)
	require.Equal(t, unknownTTL, recorder.validity())
	recorder.observe(recorder.sending(asked), good)
	require.Equal(t, 5*time.Second, recorder.validity())
	// Truncated messages do not panic.
	for i := range good {
		recorder := newRecorder()
		recorder.observe(recorder.sending(asked), good[:i])
	}
}
