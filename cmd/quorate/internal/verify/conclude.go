package verify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/robustness/linear/model"
)

func (r *run) conclude(ctx context.Context) (Result, error) {
	result := Result{Prefix: r.prefix, Seconds: time.Since(r.begin).Seconds(), Linear: string(model.Linearizable), Violations: []string{}}
	last, err := r.settle(ctx)
	if err != nil {
		return result, err
	}
	events, err := r.replay(ctx, last)
	if err != nil {
		return result, err
	}
	r.checkAnswers(&result, model.NewRecord(r.prefix, events, last))
	result.watched, err = r.checkWatches(events, last)
	if err != nil {
		return result, err
	}
	result.Watches, result.Events = result.watched.Watches, result.watched.Events
	for _, v := range result.watched.Violations {
		result.Violations = append(result.Violations, fmt.Sprintf("watch, %s: %s", v.Promise, v.Message))
	}
	return result, nil
}

// checkAnswers checks the groups of keys one by one.
func (r *run) checkAnswers(result *Result, record *model.Record) {
	for group, operations := range r.histories {
		for _, op := range operations {
			result.Operations++
			switch op.Outcome {
			case model.Answered:
				result.Answered++
			case model.Failed:
				result.Failed++
			default:
				result.Unknown++
			}
		}
		finding := record.Check(r.keys(group), operations)
		if group == 0 || finding.Verdict != model.Linearizable {
			result.finding = finding
		}
		if finding.Verdict != model.Linearizable {
			result.Linear = string(finding.Verdict)
			result.Violations = append(result.Violations, fmt.Sprintf("keys %s%d/: %s: %s", r.prefix, group, finding.Verdict, finding.Message))
		}
	}
}

// Text returns the result for people.
func (r Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations in %.0f s below %s: %d answered, %d failed, %d of unknown outcome.\n",
		r.Operations, r.Seconds, r.Prefix, r.Answered, r.Failed, r.Unknown)
	fmt.Fprintf(&b, "The answers are %s (porcupine).\n", r.Linear)
	if len(r.watched.Violations) == 0 {
		fmt.Fprintf(&b, "%d watches delivered %d events: none was lost, repeated, out of order or untrue.\n", r.Watches, r.Events)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "VIOLATION: %s\n", v)
	}
	return b.String()
}
