// Package grant has the context value that bounds the grant of a session's lease apart from the session.
package grant

import "context"

type key struct{}

// Within returns the context of a session whose lease has to be granted before ctx ends.
func Within(ctx, session context.Context) context.Context {
	return context.WithValue(session, key{}, ctx)
}

// Context returns the context that bounds the grant for a session.
func Context(session context.Context) context.Context {
	if ctx, ok := session.Value(key{}).(context.Context); ok {
		return ctx
	}
	return session
}
