package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// The clients, as the record names them.
const (
	official = "official"
	quorate  = "quorate"
)

// record is what a run measured, of which tables and picture are made. Times are in seconds.
type record struct {
	HoldSeconds float64  `json:"hold_seconds"`
	Results     []result `json:"results"`
}

// result is what was measured of one API server.
type result struct {
	Client string    `json:"client"`
	Cost   cost      `json:"cost,omitzero"`
	Rows   []row     `json:"faults"`
	Starts []float64 `json:"starts_seconds,omitempty"` // how long it took to be ready, 0 if it was not within a minute
}

// row is the worst during a fault, and until the next one.
type row struct {
	Fault        string  `json:"fault"`
	Event        float64 `json:"event_seconds"`
	List         float64 `json:"list_seconds"`
	QuietList    float64 `json:"quiet_list_seconds"`
	Write        float64 `json:"write_seconds"`
	NotReady     float64 `json:"not_ready_seconds"`
	Writes       int     `json:"writes"`
	FailedWrites int     `json:"failed_writes"`
	LeasesLost   int     `json:"leases_lost"`
}

func readRecord(path string) (r record, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	if len(r.Results) == 0 {
		return r, fmt.Errorf("%s holds no results", path)
	}
	for _, one := range r.Results {
		if len(one.Rows) != len(r.Results[0].Rows) {
			return r, fmt.Errorf("%s: its clients did not meet the same faults", path)
		}
	}
	return r, nil
}

// save writes the files that were asked for.
func (s settings) save(r record) error {
	var errs []error
	write := func(path string, text []byte) {
		if path != "" {
			errs = append(errs, os.WriteFile(path, text, 0o644)) //nolint:gosec // pages of the repository, readable by all
		}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	write(s.record, append(text, '\n'))
	write(s.picture, []byte(draw(r)))
	return errors.Join(errs...)
}
