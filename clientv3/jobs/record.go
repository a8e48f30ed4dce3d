package jobs

import (
	"encoding/json"
	"strings"
	"time"
)

// maxErrorBytes bounds the text of an error that is stored.
const maxErrorBytes = 1 << 10

// atOnce is the NotBefore of a job that was released: past by any clock.
const atOnce = 1

// record is the value of a job's state, and of a dead letter.
type record struct {
	// Attempts is how often the job was claimed and not released.
	Attempts int `json:"attempts,omitempty"`
	// NotBefore is when it may be claimed, in milliseconds of Unix time. It is 0 while the job is
	// claimed, if its process was lost, and in a dead letter.
	NotBefore int64 `json:"notBefore,omitempty"`
	// Error is that of the last attempt that failed.
	Error string `json:"error,omitempty"`
}

func (r record) String() string {
	text, _ := json.Marshal(r) // numbers and text have a form in JSON
	return string(text)
}

// failed returns the record of a job whose handler returned err. notBefore is zero for a dead letter.
func (r record) failed(err error, notBefore time.Time) record {
	if r.Error, r.NotBefore = err.Error(), 0; !notBefore.IsZero() {
		r.NotBefore = notBefore.UnixMilli()
	}
	if len(r.Error) > maxErrorBytes {
		r.Error = strings.ToValidUTF8(r.Error[:maxErrorBytes], "")
	}
	return r
}

// released returns the record of a job whose claim does not count.
func (r record) released() record {
	r.Attempts--
	r.NotBefore = atOnce
	return r
}

func parseRecord(value []byte) (r record, err error) {
	err = json.Unmarshal(value, &r)
	return r, err
}

// The kinds of keys that workers watch, below keys.live.
const (
	states  = "states"
	claims  = "claims"
	workers = "workers"
)

// keys are the prefixes of a queue's keys.
type keys struct{ live, states, claims, payloads, deadLetters string }

func newKeys(name string) keys {
	live := name + "/live/"
	return keys{
		live: live, states: live + states + "/", claims: live + claims + "/",
		payloads: name + "/payloads/", deadLetters: name + "/dead/",
	}
}
