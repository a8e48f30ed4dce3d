package robustness

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/fault"
)

// Defaults of a Config.
const (
	DefaultDuration = time.Minute
	DefaultMembers  = 3
)

// maxMembers is the largest cluster that the lab starts.
const maxMembers = 9

// Config has the settings that all runs share. Fields that are zero have their default.
type Config struct {
	// Duration is how long faults are injected. To start, to settle and to check takes some ten or twenty seconds more. Default
	// one minute.
	Duration time.Duration
	// Members of the cluster, 3 to 9. Default 3.
	Members int
	// Seed of every choice: faults, keys, operations. Two runs of a seed choose alike and still differ, because time is
	// real.
	Seed uint64
	// Dir is where the cluster keeps its files while it runs. Default os.TempDir().
	Dir string
	// Log, if set, gets lines on what is being done to the cluster.
	Log io.Writer
	// Counts, if set, receives the counts of the run while it goes on.
	Counts *Counts
}

// Complete sets the defaults. The error names everything that is wrong.
func (c *Config) Complete() (err error) {
	c.Duration = cmp.Or(c.Duration, DefaultDuration)
	c.Members = cmp.Or(c.Members, DefaultMembers)
	c.Counts = cmp.Or(c.Counts, &Counts{})
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Duration < 0 {
		err = fmt.Errorf("the duration must be more than 0; it is %v", c.Duration)
	}
	if c.Members < fault.MinMembers || c.Members > maxMembers {
		err = errors.Join(err, fmt.Errorf("the number of members must be %d to %d, so that a majority outlives the loss of one; it is %d",
			fault.MinMembers, maxMembers, c.Members))
	}
	return err
}

// Log is the log of a run, and its clock.
type Log struct {
	began time.Time
	mu    sync.Mutex
	out   io.Writer
}

// NewLog returns the log of a run that begins now.
func NewLog(out io.Writer) *Log { return &Log{began: time.Now(), out: out} }

// Now returns the time since the run began.
func (l *Log) Now() time.Duration { return time.Since(l.began) }

// Note writes a line.
func (l *Log) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.out, "%7.1fs  %s\n", l.Now().Seconds(), text)
}
