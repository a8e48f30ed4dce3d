// Package etcdprobe asks etcd members how they are, for [health].
//
// A probe is three small calls at once, because no single one tells a member that is dead
// from one that is alive and cannot work:
//
//	call                         what an answer shows         what keeps it waiting
//	grpc.health.v1 Check         life, and a wish to be left  nothing
//	Maintenance.Status           life, leader, term, learner  a defragmentation
//	linearizable KV.Range,       that reads and writes work   a defragmentation, a lost leader or
//	count only, of one key                                    quorum, a long queue of entries to apply
//
// Status reads the version of the store from the store, which a defragmentation locks for
// as long as it lasts. The health service is in memory, and says NOT_SERVING only while a
// defragmentation runs on a server with the feature gate StopGRPCServiceOnDefrag: without
// it the read that hangs is what shows one. A member that is cut off from its peers keeps
// naming its old leader in Status until an election timeout has passed; the read finds out
// at once.
//
// The read needs no permission: etcd 3.7 obtains the read index from the leader and waits
// until it has applied up to it before it looks who asks, so that even "permission denied"
// shows a member that does its work. (A Txn without operations would need no permission
// either, but counts as serializable, and is answered by a member without a quorum.)
//
// Status needs a token where authentication is on, of any user. Probes are made without
// interceptors; the connection's credentials have to attach it. A member that refuses the
// status for lack of a token is alive, and the read still shows whether it serves.
package etcdprobe
