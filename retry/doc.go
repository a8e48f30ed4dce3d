// Package retry is the error handler of an etcd client: it determines what the end of an
// attempt proves, and what the client may do next.
//
// It answers four questions, each with a table that is exported as data, and
// performs no I/O:
//
//   - What does this error prove? [Classify] names the [Class] of an attempt,
//     from [ServerErrors], [LocalErrors] and [Codes].
//   - May this call be sent twice? [SafetyOf] names the [Safety] of a call,
//     from [Methods].
//   - What follows from both? [Decide] reads one matrix, [Decisions].
//   - When, and how often? [Policy.Delay] gives the backoff, [Budget] keeps an
//     outage from causing a retry storm, and [Config] reads both from a gRPC
//     service config.
//
// [Outcome] is what a caller knows about a write after an error: see [OutcomeOf] and
// [UnknownOutcomeError].
//
// The tables were written against etcd 3.7.3 and grpc-go 1.85.0; tests check that they
// cover everything in the released packages. The page docs/error-tables.md is generated from
// them, for users of other languages; docs/errors.md explains it.
package retry

//go:generate go run ./internal/tables ../docs
