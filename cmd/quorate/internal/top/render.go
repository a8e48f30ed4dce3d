package top

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// rows bounds the tables of methods and calls.
const rows = 10

// Render returns a snapshot as tables.
func Render(s Snapshot) string {
	var b strings.Builder
	members := [][]string{{"ENDPOINT", "STATE", "ROLE", "LATENCY", "TERM", "APPLIED", "VERSION", "IN FLIGHT", "CALLS/S", "WHY"}}
	if len(s.Clients) == 0 {
		members[0] = []string{"ENDPOINT", "STATE", "ROLE", "LATENCY", "TERM", "APPLIED", "VERSION", "WHY"}
	}
	channels := make(map[string]bool)
	for _, c := range s.Clients {
		channels[c.Name] = c.Target != ""
	}
	client := ""
	for _, m := range s.Members {
		if channels[m.Client] {
			continue
		}
		if m.Client != client {
			client = m.Client
			members = append(members, []string{client + ":"})
		}
		row := []string{m.Endpoint, m.State, m.Role, ms(m.LatencyMS), number(m.Term), number(m.Applied), m.Version}
		if len(s.Clients) > 0 {
			row = append(row, fmt.Sprint(m.InFlight), fmt.Sprintf("%.1f", m.Rate))
		}
		members = append(members, append(row, m.Why))
	}
	if len(members) > 1 || len(s.Clients) == 0 {
		table(&b, members)
	}
	renderChannels(&b, s)
	renderMethods(&b, s)
	renderCalls(&b, s)
	renderClients(&b, s)
	for _, e := range s.Errors {
		b.WriteString("\nerror: " + e + "\n")
	}
	return cut(b.String(), 0)
}

// renderChannels shows the endpoints of gRPC channels, with the cause before what a narrow terminal cuts off.
func renderChannels(b *strings.Builder, s Snapshot) {
	for _, c := range s.Clients {
		if c.Target == "" {
			continue
		}
		title := c.Name + ", " + c.Target
		if c.Policy != "" {
			title += " by " + c.Policy
		}
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

func renderMethods(b *strings.Builder, s Snapshot) {
	if len(s.Methods) == 0 {
		return
	}
	lines := [][]string{{"CALL", "CALLS/S", "FAILED/S", "MEAN", "P99"}}
	for _, m := range s.Methods[:min(rows, len(s.Methods))] {
		lines = append(lines, []string{m.Shape, fmt.Sprintf("%.1f", m.Rate), fmt.Sprintf("%.1f", m.Failed), ms(m.MeanMS), ms(m.P99MS)})
	}
	b.WriteByte('\n')
	table(b, lines)
}

func renderCalls(b *strings.Builder, s Snapshot) {
	if len(s.Calls) == 0 {
		return
	}
	lines := [][]string{{"IN FLIGHT FOR", "METHOD", "ENDPOINT", "CLIENT"}}
	for _, c := range s.Calls[:min(rows, len(s.Calls))] {
		lines = append(lines, []string{ms(c.AgeMS), c.Method, c.Endpoint, c.Client})
	}
	b.WriteByte('\n')
	table(b, lines)
}

func renderClients(b *strings.Builder, s Snapshot) {
	lines := [][]string{{"CLIENT", "READY", "CALLS", "WATCHES", "LAG", "UNREAD", "LEASES", "UNANSWERED", "LEAST LEFT"}}
	for _, c := range s.Clients {
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
	if len(lines) == 1 {
		return
	}
	b.WriteByte('\n')
	table(b, lines)
}

// table writes lines in columns; "-" stands for what is not known. What comes from elsewhere is
// cleaned of what a terminal would obey.
func table(b *strings.Builder, lines [][]string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		for i, c := range cells {
			if c == "" && i < len(cells)-1 {
				c = "-"
			}
			cells[i] = strings.Map(printable, c)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // b takes everything
	}
	_ = w.Flush() // to b
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

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

func ms(v float64) string {
	switch {
	case v == 0:
		return ""
	case v < 10:
		return fmt.Sprintf("%.1f ms", v)
	case v < 10_000:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.1f s", v/1000)
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
