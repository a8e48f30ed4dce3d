// Package etcdprobe probes etcd members, for [health].
//
// Three probes ask three questions, one call each, because no single call tells a dead
// member from one that is alive and cannot work:
//
//	probe      call                          an answer shows          what delays it
//	[Liveness] grpc.health.v1 Check          life                     nothing
//	[Service]  linearizable KV.Range, count  that reads and writes    a defragmentation, a lost leader
//	           only, of one key              work                     or quorum, entries to apply
//	[Status]   Maintenance.Status            life, leader, term,      a defragmentation
//	                                         learner, alarms
//
// The Range requires a leader (hasleader): a member that knows of none says so at once
// instead of waiting. It needs no permission: etcd obtains the read index from the leader
// and applies up to it before it looks who asks, so that even "permission denied" shows a
// member that works. (A Txn without operations needs no permission either, but a member
// answers it without a quorum.)
//
// Status needs a token where authentication is on, of any user. Probes bypass interceptors:
// the credentials of the connection, or the connection that they are given, attach the token.
// A member that refuses for lack of a token
// is alive.
package etcdprobe
