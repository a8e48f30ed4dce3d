package main

import (
	"slices"

	"github.com/quorate/quorate/lab/servers/site"
)

// The setups, by short names.
const (
	plain  = site.Plain
	own    = site.Own
	auth   = site.Auth
	tokens = site.Tokens
	secure = site.TLS
	quota  = site.Quota
)

// behaviours are the rows of the matrix, in order.
var behaviours = slices.Concat(keys, watches, leases, locks, logins, faults, maintenance)
