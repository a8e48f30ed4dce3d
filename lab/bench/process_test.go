package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"time"

	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/servers"
)

// sampleTimeout bounds one sample. The slowest, a resumption by the official
// client, takes about a minute.
const sampleTimeout = 5 * time.Minute

// measure runs a job in a process of its own, with control for its requests.
func measure(ctx context.Context, program string, j cases.Job, control http.Handler) (sample cases.Sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sampleTimeout, fmt.Errorf("no result after %v", sampleTimeout))
	defer cancel()
	server := httptest.NewServer(control)
	defer server.Close()
	j.Control = cases.Control(server.URL)
	cmd := exec.CommandContext(ctx, program, "case")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe() // whose end is that of the process
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(stdin).Encode(j); err != nil {
		return nil, err
	}
	out, err := cmd.Output()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // for which the process was ended
	}
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, servers.Tail(stderr.String()))
	}
	return sample, json.Unmarshal(out, &sample)
}
