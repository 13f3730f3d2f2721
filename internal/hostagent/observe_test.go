package hostagent

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"connectrpc.com/connect"
)

// TestCallLevels checks the log levels of calls. A client that stops waiting is no event for the
// operator.
func TestCallLevels(t *testing.T) {
	failed := errors.New("failed")
	for level, errs := range map[string][]error{
		"DEBUG": {nil, connect.NewError(connect.CodeCanceled, failed)},
		"INFO":  {connect.NewError(connect.CodeNotFound, failed)},
		"ERROR": {connect.NewError(connect.CodeInternal, failed), connect.NewError(connect.CodeDataLoss, failed)},
	} {
		for _, err := range errs {
			var log bytes.Buffer
			o := observer{slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), newCounts()}
			o.begin(t.Context(), "/service/Watch")("", err)
			if !strings.Contains(log.String(), "level="+level) {
				t.Errorf("want the level %s for %v: %s", level, err, log.String())
			}
		}
	}
}
