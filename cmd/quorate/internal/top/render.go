package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/cmd/internal/cli"
)

// rows bounds the tables of methods and calls.
const rows = 10

// Text returns a snapshot as tables.
func (s Snapshot) Text() string {
	var b strings.Builder
	head := []string{"ENDPOINT", "STATE", "ROLE", "LATENCY", "TERM", "APPLIED", "VERSION", "IN FLIGHT", "CALLS/S", "WHY"}
	var members [][]string
	if len(s.Clients) == 0 {
		members = append(members, head[:7])
	}
	channels := make(map[string]bool)
	for _, c := range s.Clients {
		channels[c.Name] = c.Target != ""
	}
	var causes [][]string // below the table: a narrow terminal cuts its last columns off
	client := ""
	for _, m := range s.Members {
		if channels[m.Client] {
			continue
		}
		if m.Client != client {
			client = m.Client
			members = append(members, []string{client + ":"}, head) // a line of one cell ends columns
		}
		row := []string{m.Endpoint, m.State, m.Role, ms(m.LatencyMS), number(m.Term), number(m.Applied), m.Version}
		if len(s.Clients) > 0 {
			row = append(row, fmt.Sprint(m.InFlight), fmt.Sprintf("%.1f", m.Rate), m.Why)
		} else if m.Why != "" {
			causes = append(causes, []string{m.Endpoint + ":", m.Why})
		}
		members = append(members, row)
	}
	table(&b, members)
	if len(causes) > 0 {
		b.WriteByte('\n')
		table(&b, causes)
	}
	renderChannels(&b, s)
	section(&b, methodLines(s.Methods), "CALL", "CALLS/S", "FAILED/S", "MEAN", "P99")
	section(&b, callLines(s.Calls), "IN FLIGHT FOR", "METHOD", "ENDPOINT", "CLIENT")
	section(&b, clientLines(s.Clients), "CLIENT", "READY", "CALLS", "WATCHES", "LAG", "UNREAD", "LEASES", "UNANSWERED", "LEAST LEFT")
	section(&b, electionLines(s.Elections), "ELECTION OR LOCK", "CLIENT", "STATE", "FOR", "REVISION")
	for _, e := range s.Errors {
		b.WriteString("\nerror: " + cli.OneLine(e) + "\n")
	}
	return cut(b.String(), 0)
}

// renderChannels shows the endpoints of gRPC channels, with the cause before what a narrow terminal cuts off.
func renderChannels(b *strings.Builder, s Snapshot) {
	for _, c := range s.Clients {
		if c.Target == "" {
			continue
		}
		title := c.Name + ", " + strings.Join(nonEmpty(c.Target, c.Policy), " by ")
		if !c.Ready {
			title += " is not ready: " + c.NotReady
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		table(b, [][]string{{title}})
		lines := [][]string{{"BACKEND", "STATE", "FOR", "WHY", "SHARE", "CALLS/S", "IN FLIGHT", "STREAMS", "LATENCY"}}
		for _, m := range s.Members {
			if m.Client != c.Name {
				continue
			}
			state := m.State
			if m.Ejected {
				state += ", ejected"
			}
			lines = append(lines, []string{
				m.Endpoint, state, (time.Duration(m.For) * time.Second).String(), m.Why, fmt.Sprintf("%.0f %%", m.Share*100), fmt.Sprintf("%.1f", m.Rate),
				fmt.Sprint(m.InFlight), fmt.Sprint(m.Streams), ms(m.LatencyMS),
			})
		}
		if len(lines) > 1 {
			table(b, lines)
		}
	}
}

// section writes a table below the others, unless it has no lines.
func section(b *strings.Builder, lines [][]string, head ...string) {
	if len(lines) > 0 {
		b.WriteByte('\n')
		table(b, slices.Insert(lines, 0, head))
	}
}

func methodLines(all []Method) [][]string {
	lines := make([][]string, 0, rows)
	for _, m := range all[:min(rows, len(all))] {
		lines = append(lines, []string{m.Shape, fmt.Sprintf("%.1f", m.Rate), fmt.Sprintf("%.1f", m.Failed), ms(m.MeanMS), ms(m.P99MS)})
	}
	return lines
}

func callLines(all []Call) [][]string {
	lines := make([][]string, 0, rows)
	for _, c := range all[:min(rows, len(all))] {
		lines = append(lines, []string{ms(c.AgeMS), c.Method, c.Endpoint, c.Client})
	}
	return lines
}

func clientLines(all []Client) (lines [][]string) {
	for _, c := range all {
		if c.Target != "" {
			continue
		}
		ready, left := "yes", ""
		if !c.Ready {
			ready = "no"
		}
		if c.LeaseLeft != nil {
			left = fmt.Sprintf("%.1f s", *c.LeaseLeft)
		}
		lines = append(lines, []string{
			c.Name, ready, fmt.Sprint(c.InFlight), fmt.Sprint(c.Watches), fmt.Sprint(c.Lag), fmt.Sprintf("%d B", c.Unread),
			fmt.Sprint(c.Leases), fmt.Sprint(c.Unanswered), left,
		})
	}
	return lines
}

func electionLines(all []Election) [][]string {
	lines := make([][]string, 0, len(all))
	for _, e := range all {
		line := []string{e.Name, e.Client, "campaigns", "", ""}
		if e.Leading {
			line = []string{e.Name, e.Client, "leads", time.Duration(e.LeadingSeconds * float64(time.Second)).Round(time.Second).String(), fmt.Sprint(e.Revision)}
		}
		lines = append(lines, line)
	}
	return lines
}

// The tables of this package.
var table, ms = cli.Table, cli.Milliseconds

// cut cuts lines off after width columns, 0 for no bound, and spaces at their ends.
func cut(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if letters := []rune(line); width > 0 && len(letters) > width {
			line = string(letters[:width-1]) + "…"
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
