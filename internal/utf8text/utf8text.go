// Package utf8text makes texts that exporters of metrics and traces take.
package utf8text

import (
	"strconv"
	"unicode/utf8"
)

// Of returns a text for a label or an attribute. Prometheus refuses what is not UTF-8, and an exporter of OTLP sends nothing that
// has it: such a value is quoted, so that it stays distinct.
func Of(value string) string {
	if utf8.ValidString(value) {
		return value
	}
	return strconv.Quote(value)
}
