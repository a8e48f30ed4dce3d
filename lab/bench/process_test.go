package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/servers"
)

// sampleTimeout bounds one sample. The slowest, a resumption by the official
// client, takes about a minute.
const sampleTimeout = 5 * time.Minute

// measure runs a job in a process of its own, with control for its requests.
func measure(ctx context.Context, p *servers.Program, client servers.Client, j cases.Job, control http.Handler) (sample cases.Sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sampleTimeout, fmt.Errorf("no result after %v", sampleTimeout))
	defer cancel()
	server := httptest.NewServer(control)
	defer server.Close()
	j.Control = cases.Control(server.URL)
	err = p.Run(ctx, client, j, &sample, "case")
	return sample, err
}
