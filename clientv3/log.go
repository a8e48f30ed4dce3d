package clientv3

import (
	"log"
	"os"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zapgrpc"
	"google.golang.org/grpc/grpclog"
)

// debugEnv is the environment variable that sets the level of the default logger.
const debugEnv = "ETCD_CLIENT_DEBUG"

// With the variable, the default logger is gRPC's too, for the whole process, as with the
// official client.
func init() {
	if os.Getenv(debugEnv) == "" {
		return
	}
	if lg, err := defaultLogger(); err == nil {
		grpclog.SetLoggerV2(zapgrpc.NewLogger(lg))
	}
}

// ClientLogLevel returns the level of the default logger: the zap level named by
// the environment variable ETCD_CLIENT_DEBUG, or info if it is empty or "true". An
// invalid value also means info, and is reported on the standard logger. If the variable is
// set when the program starts, gRPC logs there, too.
func ClientLogLevel() zapcore.Level {
	text := os.Getenv(debugEnv)
	if text == "" || text == "true" {
		return zapcore.InfoLevel
	}
	var level zapcore.Level
	if err := level.Set(text); err != nil {
		log.Printf("Invalid value for environment variable '%s'. Using default level: 'info'", debugEnv)
		return zapcore.InfoLevel
	}
	return level
}

// SetLogger sets the logger of grpc, for the whole process.
//
// Deprecated: call grpclog.SetLoggerV2.
func SetLogger(l grpclog.LoggerV2) { grpclog.SetLoggerV2(l) }

// defaultLoggers caches one logger per level: building a logger costs more than the
// rest of a client.
var defaultLoggers struct {
	sync.Mutex
	byLevel map[zapcore.Level]*zap.Logger
}

// defaultLogger returns the logger of clients without a configured one. It is
// shared and writes JSON to standard error.
func defaultLogger() (*zap.Logger, error) {
	level := ClientLogLevel()
	defaultLoggers.Lock()
	defer defaultLoggers.Unlock()
	if lg, ok := defaultLoggers.byLevel[level]; ok {
		return lg, nil
	}
	lg, err := logutil.CreateDefaultZapLogger(level)
	if err != nil {
		return nil, err
	}
	lg = lg.Named("etcd-client")
	if defaultLoggers.byLevel == nil {
		defaultLoggers.byLevel = make(map[zapcore.Level]*zap.Logger)
	}
	defaultLoggers.byLevel[level] = lg
	return lg, nil
}
