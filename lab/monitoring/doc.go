// Package monitoring holds the tests of docs/monitoring: the alert rules and the dashboard use
// existing metrics, and each alert fires under its fault, and clears.
package monitoring
