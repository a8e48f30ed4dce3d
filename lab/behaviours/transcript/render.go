package transcript

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"
)

// maxText is the longest text that is written out; longer ones are represented by their length and digest.
const maxText = 100

// render writes a value with its type and its exported fields.
func render(value any) string {
	if value == nil {
		return "nil"
	}
	return fmt.Sprintf("%T %v", value, observed(reflect.ValueOf(value)))
}

// observed returns what is to be compared of a value, as package fmt writes it in one way: a structure is a map of its exported
// fields without those that are zero. An empty slice differs from a nil one.
func observed(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return observed(v.Elem())
	case reflect.Struct:
		return fields(v)
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return text(string(v.Bytes()))
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = observed(v.Index(i))
		}
		return list
	case reflect.Map:
		all := make(map[any]any, v.Len())
		for key, value := range v.Seq2() {
			all[key.Interface()] = observed(value)
		}
		return all
	case reflect.String:
		return text(v.String())
	default:
		return v.Interface()
	}
}

// fields returns the exported fields that are not zero. Of those that vary it says no more, unless they are negative.
func fields(v reflect.Value) map[string]any {
	all := make(map[string]any)
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		switch {
		case !field.IsExported() || value.IsZero():
		case varies(v.Type().Name()+"."+field.Name) && (!value.CanInt() || value.Int() >= 0):
			all[field.Name] = "(set)"
		default:
			all[field.Name] = observed(value)
		}
	}
	return all
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
		"ResponseHeader.ClusterId", "ResponseHeader.MemberId": // derived from the cluster's token, or of the member that answered
	case "ResponseHeader.RaftTerm", "StatusResponse.RaftTerm", "StatusResponse.RaftIndex",
		"StatusResponse.RaftAppliedIndex": // elections, and the lab's own calls
	case "StatusResponse.DbSize", "StatusResponse.DbSizeInUse": // pages that the store's batches happened to fill
	default:
		return false
	}
	return true
}

// sentinels are the errors that programs look for with errors.Is.
var sentinels = []error{context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrClosedPipe}

// describe returns everything about an error that a program can depend on: its text, what it is when compared with ==
// or asserted to a type, its gRPC code, and which sentinels errors.Is finds in it.
func describe(err error) string {
	if err == nil {
		return ""
	}
	text := fmt.Sprintf("text: %q\nkind: %s\ncode: %v", err.Error(), kind(err), status.Code(err))
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			text += fmt.Sprintf("\nis: %v", sentinel)
		}
	}
	return text
}

// kind returns how a program can recognise an error without unwrapping it.
func kind(err error) string {
	if slices.Contains(sentinels, err) {
		return "== a sentinel"
	}
	switch err := err.(type) { //nolint:errorlint // whether the error is bare is the question
	case rpctypes.EtcdError:
		// No two variables of rpctypes share a text.
		if rpctypes.Error(status.Error(err.Code(), err.Error())) == error(err) { //nolint:errorlint // == is what programs use
			return "rpctypes.EtcdError, == its variable"
		}
		return "rpctypes.EtcdError, unlike its variable"
	case interface{ GRPCStatus() *status.Status }:
		return "gRPC status"
	}
	if _, wrapped := errors.AsType[rpctypes.EtcdError](err); wrapped {
		return "wrapped rpctypes.EtcdError"
	}
	return "plain"
}
