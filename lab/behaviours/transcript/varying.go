package transcript

// varying are the fields that differ between two clusters, or between two moments of one, by nature. They are compared
// by their sign alone: set, zero, or the negative value itself.
var varying = map[string]string{
	"AuthenticateResponse.Token":      "random",
	"KeyValue.Lease":                  "chosen at random",
	"LeaseGrantResponse.ID":           "chosen at random",
	"LeaseKeepAliveResponse.ID":       "chosen at random",
	"LeaseStatus.ID":                  "chosen at random",
	"LeaseTimeToLiveResponse.ID":      "chosen at random",
	"LeaseTimeToLiveResponse.TTL":     "seconds that are left",
	"Member.ID":                       "derived from the cluster's token",
	"MemberPromoteRequest.ID":         "derived from the cluster's token",
	"MemberRemoveRequest.ID":          "derived from the cluster's token",
	"MemberUpdateRequest.ID":          "derived from the cluster's token",
	"MoveLeaderRequest.TargetID":      "derived from the cluster's token",
	"AlarmMember.MemberID":            "derived from the cluster's token",
	"ResponseHeader.ClusterId":        "derived from the cluster's token",
	"ResponseHeader.MemberId":         "derived from the cluster's token, and of whichever member answered",
	"ResponseHeader.RaftTerm":         "elections that it took to start",
	"StatusResponse.DbSize":           "pages that the store's batches happened to fill",
	"StatusResponse.DbSizeInUse":      "pages that the store's batches happened to fill",
	"StatusResponse.Leader":           "derived from the cluster's token",
	"StatusResponse.RaftAppliedIndex": "entries of elections and of the lab's own calls",
	"StatusResponse.RaftIndex":        "entries of elections and of the lab's own calls",
	"StatusResponse.RaftTerm":         "elections that it took to start",
}
