package leaderelection

import (
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

// KV returns a KV over the client's, whose writes are executed only while the term lasts. Puts,
// deletes and transactions are sent as transactions that compare [Term.Fence]; their responses
// are those of the plain calls. After the term they fail with a [*TermEndedError] and are not
// executed, also those that reach a server late. A call after [Term.Deadline] is not sent.
//
// Gets and GetStreams are the client's. A transaction that only reads is fenced, too. One with
// comparisons is nested: it needs etcd 3.3 or newer. Compact cannot be fenced and is refused. An
// unknown outcome remains one: see *retry.UnknownOutcomeError.
func (t *Term) KV() clientv3.KV {
	return optxn.Fenced(t.client.KV, t, func() { t.end(ErrKeyDeleted) })
}
