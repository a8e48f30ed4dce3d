package yaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// decode reads fields into the struct that target points to, with errors that name
// the field.
func decode(fields []byte, target any) error {
	err := json.Unmarshal(fields, target)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong):
		// Of all fields, only parts of this one parse their own values.
		return fmt.Errorf("LogConfig: %w", err)
	case wrong.Field == "":
		return fmt.Errorf("the file holds %s: want fields with values", withArticle(wrong.Value))
	default:
		// The path to a field begins with the name of an embedded struct.
		return fmt.Errorf("%s: want %s, got %s", strings.TrimPrefix(wrong.Field, "Config."), wanted(wrong.Type), withArticle(wrong.Value))
	}
}

// wanted says how a value of type t is written.
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a time as a whole number of nanoseconds"
	}
	switch t.Kind() {
	case reflect.String:
		return "text (in quotes, if it looks like a number)"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Uint:
		return "a whole number that is not negative"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	default:
		return "fields with values"
	}
}

// withArticle puts an article before what package json calls a value: "string", "number 1.5".
func withArticle(value string) string {
	if strings.HasPrefix(value, "array") || strings.HasPrefix(value, "object") {
		return "an " + value
	}
	return "a " + value
}

// withoutQuotes returns the message of a parser of YAML up to where it quotes the
// file, which may be a password: an asterisk before a word, say, makes it the name
// of an anchor, and messages name anchors.
func withoutQuotes(err error) string {
	message := err.Error()
	if i := strings.IndexAny(message, "'`\"{,"); i >= 0 {
		return strings.TrimSpace(message[:i]) + " ..."
	}
	return message
}
