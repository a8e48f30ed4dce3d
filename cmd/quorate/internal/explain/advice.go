package explain

import (
	"strings"

	"github.com/quorate/quorate/retry"
)

// byName is what to do about errors of etcd, by their name in rpctypes.
var byName = map[string]string{
	"ErrGRPCNoSpace":                       "Free space, then disarm: etcdctl compact REVISION; etcdctl defrag --cluster; etcdctl alarm disarm. Or raise --quota-backend-bytes.",
	"ErrGRPCCorrupt":                       "Find the member whose data differs: etcdctl endpoint hashkv --cluster. Remove it, add it anew, and: etcdctl alarm disarm.",
	"ErrGRPCCompacted":                     "The revision is gone for good. Read the present state, and watch from its revision plus one; compact less often, or read faster.",
	"ErrGRPCFutureRev":                     "The member has not come to the revision yet, or the store is another one. Repeat it linearizably, or on another member.",
	"ErrGRPCRequestTooLarge":               "Make the request smaller, or raise --max-request-bytes of all members. etcd is made for values below 1 MiB.",
	"ErrGRPCTooManyOps":                    "Split the transaction, or raise --max-txn-ops of all members.",
	"ErrGRPCDuplicateKey":                  "A transaction may put a key once. Correct the program.",
	"ErrGRPCLeaseNotFound":                 "The lease has expired or was revoked, and its keys with it. Grant another one, and put the keys again.",
	"ErrGRPCPermissionDenied":              "Grant the role what it needs: etcdctl role grant-permission ROLE read|write|readwrite KEY [RANGE_END].",
	"ErrGRPCAuthFailed":                    "Correct user or password.",
	"ErrGRPCUserEmpty":                     "Authentication is on: give a user and a password.",
	"ErrGRPCInvalidAuthToken":              "A token expired, or the member does not know it. Quorate gets another one; other clients must authenticate again.",
	"ErrGRPCNoLeader":                      "Wait for the election. If it does not end: quorate doctor.",
	"ErrGRPCLeaderChanged":                 "Repeat the read. After a write, read back whether it took place.",
	"ErrGRPCTimeout":                       "The cluster did not commit in time. Look at disks and network: quorate doctor. Read back whether a write took place.",
	"ErrGRPCTimeoutDueToLeaderFail":        "A leader was lost meanwhile. Read back whether a write took place.",
	"ErrGRPCTimeoutDueToConnectionLost":    "The member is cut off from its peers: quorate doctor. Read back whether a write took place.",
	"ErrGRPCRequestTooManyRequests":        "More is proposed than applied: slow down, and look at the disk of the leader.",
	"ErrGRPCNotSupportedForLearner":        "Ask a voting member, or promote the learner: etcdctl member promote ID.",
	"ErrGRPCUnhealthy":                     "The change of the membership waits until all members are healthy: quorate doctor.",
	"ErrGRPCMemberNotEnoughStarted":        "Start the members that are not running before the membership is changed.",
	"ErrGRPCStopped":                       "The member is shutting down. Another one serves.",
	"ErrGRPCWatchCanceled":                 "Watch again, from the last revision that was delivered plus one.",
	"ErrGRPCClusterVersionUnavailable":     "The cluster is still starting. Repeat it later.",
	"ErrGRPCAuthOldRevision":               "Users or roles were changed meanwhile. Repeat it.",
	"ErrGRPCAuthNotEnabled":                "Give no user, or turn authentication on: etcdctl auth enable.",
	"ErrGRPCRootUserNotExist":              "Add the user root before authentication is turned on: etcdctl user add root.",
	"ErrGRPCEmptyKey":                      "Give a key. For all keys, give the key \\0 and the range end \\0.",
	"ErrGRPCLeaseExist":                    "Another lease has that ID. Let the client choose one.",
	"ErrGRPCMemberNotFound":                "Look up the ID: etcdctl member list.",
	"ErrGRPCLeaseTTLTooLarge":              "Choose a shorter TTL.",
	"ErrGRPCTimeoutWaitAppliedIndex":       "The member does not apply in time what was committed: look at its disk and CPU with quorate doctor.",
	"ErrGRPCRoleNotGranted":                "Look at the roles of the user: etcdctl user get NAME.",
	"ErrGRPCInvalidClientAPIVersion":       "Upgrade the client.",
	"ErrGRPCNotLeader":                     "Ask the leader: etcdctl endpoint status --cluster.",
	"ErrGRPCUserNotFound":                  "Look up the name: etcdctl user list.",
	"ErrGRPCDowngradeInProcess":            "Finish or cancel it: etcdctl downgrade cancel.",
	"ErrGRPCNoInflightDowngrade":           "There is no downgrade to cancel.",
	"ErrGRPCInvalidDowngradeTargetVersion": "Choose the minor version before the one that runs.",
}

// byText is what to do about texts of gRPC, TLS and the network, the first that fits.
var byText = []struct{ text, do string }{
	{"too_many_pings", "The client pings more often than the server allows. Give it a keepalive time of 10 s or more, and no pings without streams."},
	{"certificate has expired or is not yet valid", "Renew the certificate, and compare the clocks. quorate doctor names the dates."},
	{"certificate signed by unknown authority", "Give the authority that signed the server's certificate as --cacert."},
	{"x509: certificate is valid for", "Reach the server by a name that its certificate has, or add the name to the certificate."},
	{"cannot validate certificate for", "Reach the server by a name that its certificate has, or add the address to the certificate."},
	{"certificate required", "The server demands a certificate of the client: give --cert and --key."},
	{"expired certificate", "The server refuses the certificate of the client, which has expired: renew the file of --cert. quorate doctor names the date."},
	{"bad certificate", "The server refuses the certificate of the client: it must be of the authority in --trusted-ca-file, and for client authentication."},
	{"first record does not look like a TLS handshake", "The server speaks plaintext: write http:// before the endpoint."},
	{"error reading server preface", "The server closed the connection: it speaks TLS and the endpoint says plaintext, or it is no gRPC server. quorate doctor tells."},
	{"connection refused", "Nothing listens there: is etcd running, and is the endpoint right? quorate doctor."},
	{"no children to pick from", "The resolver has no endpoint for the target; gRPC's log has the reason (GRPC_GO_LOG_SEVERITY_LEVEL=warning). quorate resolve TARGET."},
	{"no such host", "The name does not resolve: correct the endpoint, or DNS."},
	{noSpaceLeft, "Free space on the disk of the member's data directory (df -h), then start the member again; on a disk of its own it cannot be filled by others."},
	{"i/o timeout", "The host is down, or a firewall drops what is sent to it. quorate doctor."},
	{"received message larger than max", "If the response is larger than the client takes, ask for less at a time, with a limit, or raise MaxCallRecvMsgSize; if the request is larger than the server takes, make it smaller."},
	{"trying to send message larger than max", "The request is larger than the client sends: make it smaller, or raise MaxCallSendMsgSize."},
	{"context deadline exceeded", gaveUp},
	{"context canceled", gaveUp},
}

// byClass is what to do about the rest.
var byClass = map[retry.Class]string{
	retry.Definite:   "Correct the request: it would fail again.",
	retry.NotSent:    "Repeat it; nothing was sent. If it stays: quorate doctor.",
	retry.Refused:    "Repeat it on another member. If all refuse: quorate doctor.",
	retry.NoLeader:   "Wait for the election. If it does not end: quorate doctor.",
	retry.Overloaded: "Repeat it later, and less often.",
	retry.Token:      "Authenticate again.",
	retry.Ambiguous:  "Repeat reads. For a write, read back what it would have changed, or make it conditional (a Txn that compares a revision) and repeat it.",
	retry.Executed:   "For a write, read back whether it took place. Do not repeat it as it is.",
	retry.Closed:     "The client was closed before. Make another one.",
}

const (
	noSpaceLeft = "no space left on device"
	gaveUp      = "The caller gave up. If it should not have had to: was the deadline longer than an election (1 to 2 s)? quorate doctor. Read back whether a write took place."
)

func adviceOn(text string) (do string, ok bool) {
	for _, rule := range byText {
		if strings.Contains(text, rule.text) {
			return rule.do, true
		}
	}
	return "", false
}

func advice(text, name string, class retry.Class) string {
	if do, ok := byName[name]; ok {
		return do
	}
	if do, ok := adviceOn(text); ok {
		return do
	}
	return byClass[class]
}
