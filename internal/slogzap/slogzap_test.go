package slogzap_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/quorate/quorate/internal/slogzap"
)

func newLogger(level slog.Level) (*zap.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slogzap.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), &out
}

func TestFields(t *testing.T) {
	lg, out := newLogger(slog.LevelDebug)
	lg = lg.Named("etcd-client").With(zap.String("a", "b"))
	lg.Warn("an endpoint is out",
		zap.Int("n", -3), zap.Uint64("u", 7), zap.Bool("yes", true), zap.Float64("f", 1.5), zap.Duration("for", 2*time.Second),
		zap.Error(errors.New("boom")), zap.NamedError("last-error", nil), zap.Strings("list", []string{"x", "y"}), zap.Skip(),
		zap.Stringer("level", slog.LevelInfo), zap.Time("at", time.Unix(0, 0).UTC()), zap.Binary("bytes", []byte("z")),
		zap.Namespace("group"), zap.Int("inner", 1))
	require.Equal(t, `level=WARN msg="an endpoint is out" a=b logger=etcd-client n=-3 u=7 yes=true f=1.5 for=2s error=boom list="[x y]" `+
		`level=INFO at=1970-01-01T00:00:00.000Z bytes="z" group.inner=1`+"\n", out.String())
}

func TestLevels(t *testing.T) {
	lg, out := newLogger(slog.LevelWarn)
	lg.Debug("no")
	lg.Info("no")
	lg.Warn("w")
	lg.Error("e")
	lg.DPanic("d")
	require.Equal(t, "level=WARN msg=w\nlevel=ERROR msg=e\nlevel=ERROR msg=d\n", out.String())
	require.NoError(t, lg.Sync())
}

func TestCallerIsTheOneWhoLogs(t *testing.T) {
	var out bytes.Buffer
	slogzap.New(slog.NewTextHandler(&out, &slog.HandlerOptions{AddSource: true})).Info("here")
	require.Contains(t, out.String(), "slogzap_test.go:")
}
