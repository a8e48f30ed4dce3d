// Package retry is the error handler of an etcd client: it says what the end
// of an attempt proves, and what may be done about it.
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
//     outage from becoming a storm, and [Config] holds both in the words of a
//     gRPC service config.
//
// What a caller is told about a write is an [Outcome]: see [OutcomeOf] and
// [UnknownOutcomeError].
//
// The tables were written against etcd 3.7.3 and grpc-go 1.85.0; tests hold
// them complete against the released packages. The page docs/errors.md is
// generated from them, for readers who write in another language.
package retry

//go:generate go run ./internal/errorspage ../docs/errors.md
