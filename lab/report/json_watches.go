package report

import (
	"github.com/quorate/quorate/lab/measure"
	"github.com/quorate/quorate/lab/watchcheck"
)

type jsonWatches struct {
	Delivered        int64            `json:"delivered"`
	DelayP50MS       float64          `json:"delay_p50_ms"`
	DelayP99MS       float64          `json:"delay_p99_ms"`
	DelayMaxMS       float64          `json:"delay_max_ms"`
	LongestSilenceMS float64          `json:"longest_silence_ms"`
	Lost             int64            `json:"lost"`
	Ended            int64            `json:"ended"`
	ErrorCodes       map[string]int64 `json:"error_codes"`
}

type jsonLeases struct {
	Kept             int64            `json:"kept"`
	Expired          int64            `json:"expired"`
	Renewals         int64            `json:"renewals"`
	SmallestMarginMS float64          `json:"smallest_margin_ms"`
	Failures         int64            `json:"failures"`
	ErrorCodes       map[string]int64 `json:"error_codes"`
}

type jsonWatchCheck struct {
	OK              bool                       `json:"ok"`
	Skipped         string                     `json:"skipped"`
	ThroughRevision int64                      `json:"through_revision"`
	Watches         int64                      `json:"watches"`
	Events          int64                      `json:"events"`
	ViolationCounts map[watchcheck.Promise]int `json:"violation_counts"`
	Violations      []jsonWatchViolation       `json:"violations"`
}

type jsonWatchViolation struct {
	Promise  watchcheck.Promise `json:"promise"`
	Message  string             `json:"message"`
	Evidence []string           `json:"evidence"`
}

func jsonWatchesOf(s measure.WatchStats) jsonWatches {
	return jsonWatches{
		Delivered: s.Delivered, DelayP50MS: ms(s.DelayP50), DelayP99MS: ms(s.DelayP99), DelayMaxMS: ms(s.DelayMax),
		LongestSilenceMS: ms(s.LongestSilence), Lost: s.Undelivered, Ended: s.Ended, ErrorCodes: orEmpty(s.Codes),
	}
}

func jsonLeasesOf(s measure.LeaseStats) jsonLeases {
	return jsonLeases{
		Kept: s.Kept, Expired: s.Expired, Renewals: s.Renewals, SmallestMarginMS: ms(s.SmallestMargin),
		Failures: s.Failures, ErrorCodes: orEmpty(s.Codes),
	}
}

func jsonWatchVerdict(c WatchCheck) jsonWatchCheck {
	v := c.Verdict
	out := jsonWatchCheck{
		OK: v.OK(), Skipped: c.Skipped, ThroughRevision: c.Through, Watches: v.Watches, Events: v.Events,
		ViolationCounts: orEmpty(v.Counts), Violations: make([]jsonWatchViolation, 0, len(v.Violations)),
	}
	for _, violation := range v.Violations {
		out.Violations = append(out.Violations, jsonWatchViolation{
			Promise: violation.Promise, Message: violation.Message, Evidence: append([]string{}, violation.Evidence...),
		})
	}
	return out
}
