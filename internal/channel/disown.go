package channel

import "github.com/quorate/quorate/retry"

// Disown is told that the server refused, in a message on the latest stream,
// what was asked of it there. If that is for the sake of the token which the
// stream carries, it gives the token up, and reports whether the next stream
// would carry another one: a stream's token is the one that it was opened with.
func (t *Tries) Disown(refusal error) bool {
	if retry.Classify(refusal, retry.Evidence{Sent: true, Method: t.method}) != retry.Token {
		return false
	}
	return t.tokens.disown(t.opened.usedToken(), refusal)
}
