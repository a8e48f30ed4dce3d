// Package idempotent makes writes whose outcome is known.
package idempotent
