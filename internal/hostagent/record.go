package hostagent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Where the records are: a folder for each sandbox, of its name. Those that are being removed have another name.
const (
	sandboxesFolder = "sandboxes"
	recordFile      = "record.json"
	metricsFile     = "metrics"
)

// record is what is known of a sandbox beside what its workspace knows.
type record struct {
	SandboxID   string            `json:"sandbox_id"`
	WorkspaceID string            `json:"workspace_id,omitempty"` // empty: it is being made
	Making      string            `json:"making,omitempty"`       // by which what was made of it is found
	TeamID      string            `json:"team_id,omitempty"`
	TemplateID  string            `json:"template_id,omitempty"`
	Template    string            `json:"template"`
	From        string            `json:"from,omitempty"` // the id of the template that it was made from, where that was a sandbox once
	Environment string            `json:"environment"`
	Isolation   string            `json:"isolation,omitempty"`
	VCPUs       int               `json:"vcpus"`
	MemoryMB    int               `json:"memory_mb"`
	DiskSizeMB  int               `json:"disk_size_mb"`
	TimeoutSec  int               `json:"timeout_sec"`
	DefaultUser string            `json:"default_user,omitempty"`
	DefaultEnv  map[string]string `json:"default_env,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	LastActive  time.Time         `json:"last_active_at"`
	Inactive    bool              `json:"paused_for_inactivity,omitempty"` // it was last paused, or was to be, because of inactivity, which nobody has acknowledged
}

func (a *Agent) folderOf(id string) string {
	return filepath.Join(a.options.Folder, sandboxesFolder, id)
}

func (a *Agent) metricsFile(id string) string { return filepath.Join(a.folderOf(id), metricsFile) }

// writeRecord writes a record so that a crash leaves the old one or the new one.
func (a *Agent) writeRecord(r record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	folder := a.folderOf(r.SandboxID)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fault.Wrap(err, "write the record of sandbox", r.SandboxID)
	}
	err = durable.Replace(filepath.Join(folder, recordFile), text)
	return fault.Wrap(errors.Join(err, durable.Sync(filepath.Dir(folder))), "write the record of sandbox", r.SandboxID)
}

// removeRecord removes it with all that is beside it: once its name is gone nothing of it is there.
func (a *Agent) removeRecord(id string) error {
	folder := a.folderOf(id)
	gone := filepath.Join(filepath.Dir(folder), goingPrefix+id)
	err := os.RemoveAll(gone)
	if err == nil {
		err = os.Rename(folder, gone)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fault.Wrap(errors.Join(err, durable.Sync(filepath.Dir(folder)), os.RemoveAll(gone)), "remove the record of sandbox", id)
}

// goingPrefix begins the name of what is being removed. No id begins so.
const goingPrefix = ".going-"

// damagedPrefix begins the name of the folder of one whose record nobody can read. No id begins so.
const damagedPrefix = ".damaged-"

// readRecords reads all records of a folder, and removes what was being removed. Those that can't be read are put aside, so that nothing is made in their place.
func readRecords(folder string) (all []record, damaged []error, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, fault.Wrap(err, "read the records of sandboxes", folder)
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), goingPrefix):
			if err := os.RemoveAll(path); err != nil {
				return nil, nil, fault.Wrap(err, "remove", path)
			}
			continue
		case strings.HasPrefix(e.Name(), damagedPrefix) || !e.IsDir():
			continue
		}
		text, err := os.ReadFile(filepath.Join(path, recordFile))
		if errors.Is(err, fs.ErrNotExist) { // its maker ended before it had written it
			if err := os.RemoveAll(path); err != nil {
				return nil, nil, fault.Wrap(err, "remove", path)
			}
			continue
		}
		var r record
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err == nil && r.SandboxID != e.Name() {
			err = errors.New("it is another sandbox's")
		}
		if err != nil {
			aside := filepath.Join(folder, damagedPrefix+e.Name())
			damaged = append(damaged, &fault.Error{
				Op: "read the record of sandbox", Subject: e.Name(), Kind: fault.Corrupt, Err: err, Hint: "put " + aside + " right and back, or pyro workspace list, and delete its workspace",
			})
			if err := errors.Join(os.RemoveAll(aside), os.Rename(path, aside)); err != nil {
				return nil, nil, fault.Wrap(err, "put aside", path)
			}
			continue
		}
		all = append(all, r)
	}
	return all, damaged, nil
}
