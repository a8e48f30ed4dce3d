package introspect

// merge returns clients as one: it adds up their counts, and keeps the worst of each figure
// that is a minimum or a maximum.
func merge(all []Client) Client {
	sum := Client{Ready: true}
	for _, one := range all {
		if !one.Ready {
			sum.Ready, sum.NotReady = false, one.NotReady
		}
		sum.Endpoints, sum.Budgets = append(sum.Endpoints, one.Endpoints...), append(sum.Budgets, one.Budgets...)
		sum.Elections = append(sum.Elections, one.Elections...)
		sum.Calls.InFlight += one.Calls.InFlight
		sum.Calls.Attempts += one.Calls.Attempts
		sum.Watches.merge(one.Watches)
		sum.Leases.KeptAlive += one.Leases.KeptAlive
		sum.Leases.Unanswered += one.Leases.Unanswered
		sum.Leases.LeftSeconds = least(sum.Leases.LeftSeconds, one.Leases.LeftSeconds)
		sum.Leases.LeftRatio = least(sum.Leases.LeftRatio, one.Leases.LeftRatio)
	}
	return sum
}

func (w *Watches) merge(one Watches) {
	w.Open += one.Open
	w.Streams += one.Streams
	w.BufferedBytes += one.BufferedBytes
	w.MaxBufferedBytes += one.MaxBufferedBytes
	w.LagRevisions = max(w.LagRevisions, one.LagRevisions)
	w.BlockedSeconds = max(w.BlockedSeconds, one.BlockedSeconds)
	if w.ByState == nil && one.ByState != nil {
		w.ByState = make(map[string]int, len(one.ByState))
	}
	for state, n := range one.ByState {
		w.ByState[state] += n
	}
}

// least returns the lower of two numbers; nil stands for no number.
func least(a, b *float64) *float64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}
