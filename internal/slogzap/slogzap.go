// Package slogzap makes a zap.Logger from a slog.Handler.
package slogzap

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a logger whose entries go to the handler. zap's levels above Error become Error, the
// name of the logger becomes the attribute "logger", and fields become attributes.
func New(h slog.Handler) *zap.Logger { return zap.New(core{h}, zap.AddCaller()) }

type core struct{ handler slog.Handler }

func levelOf(l zapcore.Level) slog.Level {
	switch {
	case l < zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.InfoLevel:
		return slog.LevelInfo
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	default:
		return slog.LevelError
	}
}

func (c core) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), levelOf(l))
}

func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.handler.WithAttrs(attrsOf(fields))}
}

func (c core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, levelOf(e.Level), e.Message, e.Caller.PC)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	r.AddAttrs(attrsOf(fields)...)
	return c.handler.Handle(context.Background(), r)
}

func (core) Sync() error { return nil }

// attrsOf converts fields to attributes. Fields after a namespace form a group.
func attrsOf(fields []zapcore.Field) []slog.Attr {
	attrs := make([]slog.Attr, 0, len(fields))
	for i, f := range fields {
		if f.Type == zapcore.NamespaceType {
			return append(attrs, slog.Attr{Key: f.Key, Value: slog.GroupValue(attrsOf(fields[i+1:])...)})
		}
		attrs = appendAttrs(attrs, f)
	}
	return attrs
}

func appendAttrs(attrs []slog.Attr, f zapcore.Field) []slog.Attr {
	if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
		return append(attrs, slog.String(f.Key, err.Error())) // without the verbose form of the encoder
	}
	values := zapcore.NewMapObjectEncoder()
	f.AddTo(values)
	for key, value := range values.Fields {
		attrs = append(attrs, slog.Any(key, value))
	}
	return attrs
}
