// Package jobs is a work queue in etcd whose jobs survive their workers.
//
//	queue, err := jobs.New(client, jobs.Config{Name: "mail"})
//	…
//	id, err := queue.Enqueue(ctx, "ann@example.org")
//	…
//	err = queue.Work(ctx, 50, func(ctx context.Context, job *jobs.Job) error {
//		return send(ctx, job.Payload)
//	})
//
// A job is handled at least once, and by one worker at a time. It leaves the queue when its handler
// returns nil. An error, or the loss of the process, lets another worker try again after a backoff;
// after [Config.MaxAttempts] the job is a dead letter, which stays until [Queue.Retry] or
// [Queue.Remove].
//
// # Claims
//
// A process that works has one lease, as a candidate of package leaderelection has. A claim is a key of the job under
// that lease. When the process dies, the lease expires, and the claim with it. The context of a
// handler ends [Config.Margin] before that, so a handler that returns in the margin never runs
// beside another one of its job.
//
// A process that was paused for longer goes on without noticing. Let etcd decide: writes through
// [Job.KV], and transactions that compare [Job.Fence], are refused when the claim is gone; other
// systems can refuse a smaller [Job.Revision] than they have seen. [Job.Ack] writes and
// acknowledges in one transaction: what it writes is written once for each job.
//
// # Outcomes
//
// Claims and acknowledgements compare what they change, so none is executed twice, however late a copy
// arrives. When an answer is lost they are sent again, and the comparison tells what the first one
// did. [Queue.Enqueue] is sent once. If its answer is lost, the job is looked for; if it is not
// there, the error is a *retry.UnknownOutcomeError. Enqueue it again with the same [WithID], or put
// package idempotent below the queue.
//
// # Fairness
//
// Each process watches the queue. The processes with a free place have an order for each job, by a
// hash of both; the first one claims at once, each further one 20 ms and the duration of its own last claim later, if the
// job is still free. So mostly one process sends a claim and not all, and each gets the same share; several send one when
// claims become slower. Jobs are claimed about in the order in which they were enqueued. Nothing is polled: a timer waits for
// the next delay that ends.
//
// # What it costs
//
// A job that succeeds is three transactions: enqueue, claim, acknowledge. A retry is two more. Each
// process receives five small events for a job, and four for a retry, without the payload, and holds
// about 500 bytes of memory for each job in the queue. A process has one lease with its renewals, and two watches. Dead
// letters and payloads are not watched.
//
// # Clocks
//
// Delays and backoffs are stored as a time of day. A process whose clock is ahead handles such a job
// earlier. Claims, and jobs that return when Work ends, do not depend on the time of day.
//
// # Servers
//
// Those of package leaderelection: etcd from 3.4.36, 3.5.18 and 3.6.0 on, because watches of older
// ones lose events at compactions. Not kine.
package jobs
