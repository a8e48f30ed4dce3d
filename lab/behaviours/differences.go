package behaviours

import "github.com/quorate/quorate/lab/behaviours/transcript"

// Deliberate lists all differences between the official client and Quorate that are wanted.
var Deliberate = []transcript.Difference{
	// An error about the configuration names the field.
	{Step: "new: bad log configuration", One: `"no encoder`, Other: `"LogConfig: no encoder`},
	// It is added below the program's interceptors, together with the token; the behaviour wire shows that it is sent.
	{Step: "interceptors: API version", One: `"3.7"`, Other: `nil`},
	// etcd 3.4 refuses an Authenticate that carries a stale token; the official client sends one along, without end.
	{Step: "alice: get with the new password", Server: "etcd 3.4", One: "context deadline exceeded", Other: ""},
	// The error has the reason, whether the service ever kept a lease alive or not.
	{Step: "keepalive end: unused service: afterwards, error", One: `halted"`, Other: `halted: context canceled"`},
	// The reason is wrapped, so that errors.Is finds it.
	{Step: "afterwards, error", One: `halted: context canceled"`, Other: "is:   context.Canceled"},
	// A watch from now on never sees what was there before it; the official client repeats the last revision when it resumes.
	{Step: "outage: quiet: events", One: `"outage/unread"`, Other: `"outage/after"`},
	// A grpc-proxy gives no reason for a refusal; the official client's error has no text then.
	{Step: "watch refused: end", Server: "grpc-proxy 3.7.3", One: `text: ""`, Other: "future revision"},
	// The header and the reason in the server's refusal of a watch are passed on.
	{Step: "watch refused", One: "Canceled: true", Other: "CancelReason: "},
	{Step: "denied watch", One: "Canceled: true", Other: "CancelReason: "},
	{Step: "anonymous: watch", One: "Canceled: true", Other: "CancelReason: "},
	// The error says what is the matter.
	{Step: "request progress afterwards", One: `"no stream found for context"`, Other: `"etcdclient: the watcher is closed: no stream found for context"`},
}
