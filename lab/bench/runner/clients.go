package runner

import (
	"github.com/quorate/quorate/lab/bench/client"
	"github.com/quorate/quorate/lab/bench/client/official"
	"github.com/quorate/quorate/lab/bench/client/quorate"
	"github.com/quorate/quorate/lab/bench/report"
)

// clients are the two that are compared.
var clients = map[string]client.Opener{
	report.Official: official.Open,
	report.Quorate:  quorate.Open,
}
