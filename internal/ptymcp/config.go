package ptymcp

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/confirm"
	"github.com/pyro-mcp/pyro/internal/danger"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// Config contains the settings from the environment variables PTY_MCP_*. Its times are durations,
// but the variables are in seconds or milliseconds. Each comment starts with the variable's name
// and default.
type Config struct {
	MaxSessions int           // MAX_SESSIONS, 20: maximum number of running sessions
	Grace       time.Duration // IDLE_GRACE_SEC, one hour: how long ended sessions are kept
	GCInterval  time.Duration // GC_INTERVAL_SEC, 5
	MaxChars    int           // MAX_CHARS, 8000: default size of reads
	UntilMax    time.Duration // READ_UNTIL_MAX_MS, 60000: maximum wait of a call
	Quiescence  time.Duration // QUIESCENCE_MS, 300
	LogFolder   string        // SESSION_LOG_DIR, no log
	Backend     string        // BACKEND, subprocess
	Limits      Limits        // defaults for new sessions

	ConfirmTTL    time.Duration // DANGEROUS_CONFIRM_TTL_SEC, 300
	Rules         *danger.Rules // DANGEROUS_PATTERNS
	RequireOwner  bool          // REQUIRE_OWNER, 1
	AdminTools    bool          // ENABLE_ADMIN_TOOLS, 0
	ControlTools  bool          // ENABLE_CONTROL_TOOLS, 0
	LegacyConfirm bool          // DANGEROUS_LEGACY_MODE, 0
	CheckWrites   bool          // CHECK_WRITES, 1: check typed lines in the same way as spawned commands
	// SECRETS: files and variables for pty_send_secret, separated by semicolons. By default, all
	// files and variables are allowed, but none for workspaces.
	Secrets   []string
	SpawnMeta bool       // SPAWN_META, 0: pty_spawn returns all fields of the session instead of only its ID
	LogLevel  slog.Level // LOG, info
	LogJSON   bool       // LOG_FORMAT, plain
}

// Limits are the defaults for new sessions. Their JSON form is the result of get_limits.
type Limits struct {
	OutputBytes int64 `json:"max_output_bytes"`  // RING_MAX_BYTES, 1 MiB: size of the stored output
	SpawnSec    int64 `json:"spawn_timeout_sec"` // SPAWN_TIMEOUT_SEC, 0: no limit
	IdleSec     int64 `json:"idle_timeout_sec"`  // IDLE_TIMEOUT_SEC, 900; 0: no limit
	ReadMS      int64 `json:"read_timeout_ms"`   // READ_TIMEOUT_MS, 300
	OutputRate  int64 `json:"rate_limit_bps"`    // OUTPUT_RATE_BPS, 0: no limit
	InputRate   int64 `json:"input_rate_bps"`    // INPUT_RATE_BPS, 0: no limit
}

const (
	prefix       = "PTY_MCP_"
	maxSeconds   = 10 * 366 * 24 * 3600
	maxChars     = 170_000 // each takes at most six bytes in JSON, so results stay below their limit
	defaultGrace = time.Hour
)

// FromEnv reads the configuration. lookup is a function such as [os.LookupEnv]. An empty variable
// counts as not set. If variables are wrong, a single error of kind Invalid lists all of them.
func FromEnv(lookup func(string) (string, bool)) (Config, error) {
	e := &environment{lookup: lookup}
	c := Config{
		MaxSessions: int(e.number("MAX_SESSIONS", 20, 1, 10_000)),
		Grace:       e.seconds("IDLE_GRACE_SEC", defaultGrace, 0),
		GCInterval:  e.seconds("GC_INTERVAL_SEC", 5*time.Second, 1),
		MaxChars:    int(e.number("MAX_CHARS", 8000, 1, maxChars)),
		UntilMax:    e.milliseconds("READ_UNTIL_MAX_MS", time.Minute),
		Quiescence:  e.milliseconds("QUIESCENCE_MS", 300*time.Millisecond),
		LogFolder:   e.folder("SESSION_LOG_DIR"),
		Backend:     e.option("BACKEND", string(session.Subprocess), string(session.Tmux)),
		Limits: Limits{
			OutputBytes: e.number("RING_MAX_BYTES", 1<<20, 1, session.MaxOutput),
			SpawnSec:    e.number("SPAWN_TIMEOUT_SEC", 0, 0, maxSeconds),
			IdleSec:     e.number("IDLE_TIMEOUT_SEC", 900, 0, maxSeconds),
			ReadMS:      e.number("READ_TIMEOUT_MS", 300, 0, maxSeconds),
			OutputRate:  e.number("OUTPUT_RATE_BPS", 0, 0, math.MaxInt32),
			InputRate:   e.number("INPUT_RATE_BPS", 0, 0, math.MaxInt32),
		},
		ConfirmTTL:    e.seconds("DANGEROUS_CONFIRM_TTL_SEC", confirm.DefaultTTL, 1),
		Rules:         e.rules("DANGEROUS_PATTERNS"),
		RequireOwner:  e.flag("REQUIRE_OWNER", true),
		AdminTools:    e.flag("ENABLE_ADMIN_TOOLS", false),
		ControlTools:  e.flag("ENABLE_CONTROL_TOOLS", false),
		LegacyConfirm: e.flag("DANGEROUS_LEGACY_MODE", false),
		CheckWrites:   e.flag("CHECK_WRITES", true),
		Secrets:       e.secrets("SECRETS"),
		SpawnMeta:     e.flag("SPAWN_META", false),
		LogJSON:       e.option("LOG_FORMAT", "plain", "json") == "json",
	}
	e.number("READ_CHUNK_BYTES", 4096, 1, 1<<20) // accepted for compatibility, but ignored
	c.LogLevel = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}[e.option("LOG", "info", "debug", "warn", "error")]
	if len(e.wrong) > 0 {
		return Config{}, fault.New(fault.Invalid, "read the environment", "", "%s", strings.Join(e.wrong, "; ")).WithHint("correct it, or unset it for the default")
	}
	return c, nil
}

// Logger returns a logger with the settings LOG and LOG_FORMAT.
func (c Config) Logger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// environment reads variables and collects errors.
type environment struct {
	lookup func(string) (string, bool)
	wrong  []string
}

func (e *environment) text(name string) (value string, set bool) {
	value, _ = e.lookup(prefix + name)
	value = strings.TrimSpace(value)
	return value, value != ""
}

func (e *environment) refuse(name, value, must string) {
	e.wrong = append(e.wrong, fmt.Sprintf("%s%s is %.80q: it must be %s", prefix, name, value, must))
}

func (e *environment) number(name string, byDefault, least, most int64) int64 {
	value, set := e.text(name)
	if !set {
		return byDefault
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		e.refuse(name, value, fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return n
}

func (e *environment) seconds(name string, byDefault time.Duration, least int64) time.Duration {
	return time.Duration(e.number(name, int64(byDefault/time.Second), least, maxSeconds)) * time.Second
}

func (e *environment) milliseconds(name string, byDefault time.Duration) time.Duration {
	return time.Duration(e.number(name, byDefault.Milliseconds(), 0, maxSeconds)) * time.Millisecond
}

func (e *environment) flag(name string, byDefault bool) bool {
	value, set := e.text(name)
	switch strings.ToLower(value) {
	case "1", "true", "yes", "on":
		return true
	case "0", "false", "no", "off":
		return false
	}
	if set {
		e.refuse(name, value, "0 or 1")
	}
	return byDefault
}

// option returns a variable whose value must be one of options. The first option is the default.
func (e *environment) option(name string, options ...string) string {
	value, set := e.text(name)
	if !set {
		return options[0]
	}
	for _, o := range options {
		if strings.EqualFold(value, o) {
			return o
		}
	}
	e.refuse(name, value, "one of "+strings.Join(options, ", "))
	return value
}

func (e *environment) folder(name string) string {
	value, set := e.text(name)
	if !set {
		return ""
	}
	path, err := filepath.Abs(expanded(value))
	if err != nil {
		e.refuse(name, value, "a folder")
	}
	return path
}

func (e *environment) rules(name string) *danger.Rules {
	value, _ := e.text(name)
	r, err := danger.New(value)
	if err != nil {
		e.wrong = append(e.wrong, prefix+name+": "+err.Error())
	}
	return r
}

// secrets returns the names of variables, and the paths of files with symbolic links resolved.
func (e *environment) secrets(name string) (all []string) {
	value, _ := e.text(name)
	for one := range strings.SplitSeq(value, ";") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		if path := expanded(one); filepath.IsAbs(path) {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				path = real
			}
			all = append(all, path)
			continue
		}
		if strings.ContainsAny(one, "/=") {
			e.refuse(name, value, "absolute paths and names of variables, with ; between them")
		}
		all = append(all, one)
	}
	return all
}

// expanded replaces a "~" at the beginning of a path with the home folder.
func expanded(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		if home, err := os.UserHomeDir(); err == nil {
			return home + rest
		}
	}
	return path
}
