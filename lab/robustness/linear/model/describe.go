package model

import (
	"fmt"
	"strconv"
	"strings"
)

// keyName returns the letter by which a key goes in descriptions.
func keyName(key int) string { return string(rune('a' + key)) }

// String describes the request, such as "txn if mod(a)=7 then put b=x else get a".
func (r Request) String() string {
	var b strings.Builder
	if r.Shared {
		b.WriteString("shared ")
	}
	if r.Cached {
		b.WriteString("cached ")
	}
	if r.Kind != Get && r.Kind != Put && r.Kind != Delete {
		b.WriteString(r.Kind.String() + " ")
	}
	if len(r.If) > 0 {
		b.WriteString("if " + join(r.If, " and ") + " then ")
	}
	b.WriteString(join(r.Then, ", "))
	if len(r.Else) > 0 {
		b.WriteString(" else " + join(r.Else, ", "))
	}
	return b.String()
}

func join[T fmt.Stringer](items []T, separator string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.String()
	}
	return strings.Join(texts, separator)
}

var targetNames = map[Target]string{Value: "value", Version: "version", CreateRevision: "create", ModRevision: "mod"}

// String describes the comparison, such as "mod(a)=7".
func (c Compare) String() string {
	operator := "="
	if c.NotEqual {
		operator = "!="
	}
	operand := c.Value
	if c.Target != Value {
		operand = strconv.FormatInt(c.Number, 10)
	}
	return fmt.Sprintf("%s(%s)%s%s", targetNames[c.Target], keyName(c.Key), operator, operand)
}

// String describes the act, such as "put a=x".
func (a Act) String() string {
	switch a.Verb {
	case Write:
		text := "put " + keyName(a.Key) + "=" + a.Value
		if a.Orphan {
			text += " under no lease there is"
		}
		return text
	case Remove:
		return "delete " + keyName(a.Key)
	default:
		return "get " + keyName(a.Key)
	}
}

// String describes the key, such as "x (version 2, created at 5, modified at 7)".
func (kv KV) String() string {
	if kv == (KV{}) {
		return "absent"
	}
	return fmt.Sprintf("%s (version %d, created at %d, modified at %d)", kv.Value, kv.Version, kv.CreateRevision, kv.ModRevision)
}

// describe describes the response to a request.
func (r Response) describe(request Request) string {
	var parts []string
	if len(request.If) > 0 {
		if r.Succeeded {
			parts = append(parts, "succeeded")
		} else {
			parts = append(parts, "not succeeded")
		}
	}
	for i, act := range request.branch(r.Succeeded) {
		if i >= len(r.Results) {
			break
		}
		if act.Verb == Remove {
			parts = append(parts, fmt.Sprintf("deleted %d", r.Results[i].Deleted))
		}
		if act.Verb == Read || act.Prev || r.Results[i].KV != (KV{}) {
			parts = append(parts, r.Results[i].KV.String())
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("at revision %d", r.Revision)), ", ")
}

// String describes the step: what was asked and what is known of its end.
func (s *step) String() string {
	switch {
	case s.Outcome == Answered:
		return s.Request.String() + " → " + s.response.describe(s.Request)
	case s.effect == placed:
		return fmt.Sprintf("%s → unknown (%s), but its value was seen at revision %d", s.Request, s.Err, s.response.Revision)
	case s.effect == loose:
		return fmt.Sprintf("%s → unknown (%s)", s.Request, s.Err)
	default:
		return fmt.Sprintf("%s → failed without effect (%s)", s.Request, s.Err)
	}
}

// String describes the revision, such as "7" or "5 to 7" where it is not known.
func (s span) String() string {
	if s.first == s.last {
		return strconv.FormatInt(s.first, 10)
	}
	return fmt.Sprintf("%d to %d", s.first, s.last)
}

// String describes the store, such as "a=x (version 1, created at 7, modified at 7), b absent, c absent".
func (s store) String() string {
	texts := make([]string, Keys)
	for key, e := range s {
		texts[key] = keyName(key) + " absent"
		if e.version > 0 {
			texts[key] = fmt.Sprintf("%s=%s (version %d, created at %v, modified at %v)", keyName(key), e.value, e.version, e.created, e.modified)
		}
	}
	return strings.Join(texts, ", ")
}
