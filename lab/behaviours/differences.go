package behaviours

import "github.com/quorate/quorate/lab/behaviours/transcript"

// Deliberate lists all intended differences between the official client and Quorate.
var Deliberate = []transcript.Difference{
	// An error about the configuration names the field.
	{Step: "new: bad log configuration", One: `"no encoder`, Other: `"LogConfig: no encoder`},
	// etcd 3.4 refuses an Authenticate that carries a stale token; the official client keeps sending one.
	{Step: "alice: get with the new password", Server: "etcd 3.4", One: "context deadline exceeded", Other: ""},
	// The error has the reason, even if the service never kept a lease alive.
	{Step: "keepalive end: unused service: afterwards, error", One: `halted"`, Other: `halted: context canceled"`},
	// The reason is wrapped, so that errors.Is finds it.
	{Step: "afterwards, error", One: `halted: context canceled"`, Other: "is: context canceled"},
	// A grpc-proxy gives no reason for a refusal. The official client's error then has no text.
	{Step: "watch refused: end", Server: "grpc-proxy 3.7.3", One: `text: ""`, Other: "future revision"},
	// A grpc-proxy answers the first keepalive of a lease late, and Quorate asks again after 2 and 4 s.
	{Step: "alice: keep alive", Server: "grpc-proxy 3.7.3", One: "TTL:35", Other: "TTL:35"},
	// Quorate passes on the header and the reason in the server's refusal of a watch.
	{Step: "watch refused", One: "Canceled:true", Other: "CancelReason:"},
	{Step: "denied watch", One: "Canceled:true", Other: "CancelReason:"},
	{Step: "anonymous: watch", One: "Canceled:true", Other: "CancelReason:"},
	// The error says what is wrong.
	{Step: "request progress afterwards", One: `"no stream found for context"`, Other: `"etcdclient: the watcher is closed: no stream found for context"`},
}
