package transcript

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"
)

// maxText is the longest text that is written out; longer ones are represented by their length and digest.
const maxText = 100

// render writes a value by its exported fields, one to a line. Fields with their zero value are left out; an empty
// slice differs from a nil one.
func (l *Log) render(value any) string {
	if value == nil {
		return "nil"
	}
	var out strings.Builder
	v := reflect.ValueOf(value)
	fmt.Fprintf(&out, "%s ", v.Type())
	write(&out, v, "")
	return strings.TrimRight(out.String(), "\n")
}

func write(out *strings.Builder, v reflect.Value, indent string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			out.WriteString("nil\n")
			return
		}
		write(out, v.Elem(), indent)
	case reflect.Struct:
		writeStruct(out, v, indent)
	case reflect.Slice, reflect.Array:
		writeList(out, v, indent)
	case reflect.Map:
		if v.Len() == 0 { // a nil one is like an empty one
			out.WriteString("{}\n")
			return
		}
		fmt.Fprintf(out, "%#v\n", v) // sorted by key
	case reflect.String:
		fmt.Fprintln(out, text(v.String()))
	case reflect.Func, reflect.Chan:
		fmt.Fprintf(out, "nil: %t\n", v.IsNil())
	default:
		fmt.Fprintln(out, v)
	}
}

func writeStruct(out *strings.Builder, v reflect.Value, indent string) {
	out.WriteString("{\n")
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || v.Field(i).IsZero() {
			continue
		}
		fmt.Fprintf(out, "%s  %s: ", indent, field.Name)
		if varies(v.Type().Name() + "." + field.Name) {
			writeSign(out, v.Field(i))
			continue
		}
		write(out, v.Field(i), indent+"  ")
	}
	out.WriteString(indent + "}\n")
}

// writeSign writes no more of a value that is not zero than whether it is negative.
func writeSign(out *strings.Builder, v reflect.Value) {
	if v.CanInt() && v.Int() < 0 {
		fmt.Fprintln(out, v)
		return
	}
	out.WriteString("(set)\n")
}

func writeList(out *strings.Builder, v reflect.Value, indent string) {
	switch {
	case v.Kind() == reflect.Slice && v.IsNil():
		out.WriteString("nil\n")
	case v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice:
		fmt.Fprintln(out, text(string(v.Bytes())))
	case v.Len() == 0:
		out.WriteString("[]\n")
	default:
		out.WriteString("[\n")
		for i := range v.Len() {
			out.WriteString(indent + "  ")
			write(out, v.Index(i), indent+"  ")
		}
		out.WriteString(indent + "]\n")
	}
}

func text(s string) string {
	if len(s) > maxText {
		return fmt.Sprintf("%d bytes with SHA-256 %x", len(s), sha256.Sum256([]byte(s)))
	}
	return fmt.Sprintf("%q", s)
}

// varies reports whether a field differs between two clusters, or between two moments of one, by nature. Such fields are
// compared by their sign alone: set, zero, or the negative value itself.
func varies(field string) bool {
	switch field {
	case "AuthenticateResponse.Token", "KeyValue.Lease", "LeaseGrantResponse.ID", "LeaseKeepAliveResponse.ID",
		"LeaseStatus.ID", "LeaseTimeToLiveResponse.ID": // chosen at random
	case "LeaseTimeToLiveResponse.TTL": // seconds that are left
	case "Member.ID", "MemberPromoteRequest.ID", "MemberRemoveRequest.ID", "MemberUpdateRequest.ID",
		"MoveLeaderRequest.TargetID", "AlarmMember.MemberID", "StatusResponse.Leader",
		"ResponseHeader.ClusterId", "ResponseHeader.MemberId": // derived from the cluster's token, or of whichever member answered
	case "ResponseHeader.RaftTerm", "StatusResponse.RaftTerm", "StatusResponse.RaftIndex",
		"StatusResponse.RaftAppliedIndex": // elections, and the lab's own calls
	case "StatusResponse.DbSize", "StatusResponse.DbSizeInUse": // pages that the store's batches happened to fill
	default:
		return false
	}
	return true
}
