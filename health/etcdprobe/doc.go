// Package etcdprobe probes etcd members, for [health].
//
// There are three probes, one call each, because no single call distinguishes a dead
// member from one that is alive but cannot work:
//
//	probe      call                          an answer shows          what delays it
//	Liveness   grpc.health.v1 Check          life                     nothing
//	Service    linearizable KV.Range, count  that reads and writes    a defragmentation, a lost leader
//	           only, of one key              work                     or quorum, entries to apply
//	Status     Maintenance.Status            life, leader, term,      a defragmentation
//	                                         learner, alarms
//
// The Range requires a leader (hasleader): a member without one fails it at once instead
// of waiting. It needs no permission: etcd obtains the read index from the leader and
// applies up to it before it checks permissions, so that even "permission denied" proves
// that the member works. (A Txn without operations needs no permission either, but a
// member answers it without a quorum.)
//
// With authentication enabled, Status needs no token in old releases of etcd (3.5.5), one of root
// in some (3.6.8), and one of any user in new ones (3.5.35, 3.6.16, 3.7). Probes bypass
// interceptors; the connection, or its credentials, attach the token. A member that rejects a
// probe is alive, and shows no role.
package etcdprobe
