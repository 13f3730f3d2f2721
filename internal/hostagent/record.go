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

// Each sandbox has a folder named after its ID. The folder gets another name before it is removed.
const (
	sandboxesFolder = "sandboxes"
	recordFile      = "record.json"
	metricsFile     = "metrics"
)

// record contains the state of a sandbox that is not stored in its workspace.
type record struct {
	SandboxID   string            `json:"sandbox_id"`
	WorkspaceID string            `json:"workspace_id,omitempty"` // empty during the creation.
	CreationID  string            `json:"making,omitempty"`       // Spec.CreationID, to find the workspace of an interrupted creation.
	TeamID      string            `json:"team_id,omitempty"`
	TemplateID  string            `json:"template_id,omitempty"`
	Template    string            `json:"template"`
	From        string            `json:"from,omitempty"` // workspace ID of the template, if the template was made from a sandbox
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
	// Inactive is true if the last pause was automatic and no client has acknowledged it. It is set
	// before the pause.
	Inactive bool `json:"paused_for_inactivity,omitempty"`
}

func (a *Agent) folderOf(id string) string {
	return filepath.Join(a.options.Folder, sandboxesFolder, id)
}

func (a *Agent) metricsFile(id string) string { return filepath.Join(a.folderOf(id), metricsFile) }

// writeRecord writes a record. After a crash the file contains either the old or the new record.
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

// removeRecord removes the folder of a sandbox. It renames the folder first, so that a crash does
// not leave a partial record.
func (a *Agent) removeRecord(id string) error {
	folder := a.folderOf(id)
	deleting := filepath.Join(filepath.Dir(folder), deletingPrefix+id)
	err := os.RemoveAll(deleting)
	if err == nil {
		err = os.Rename(folder, deleting)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fault.Wrap(errors.Join(err, durable.Sync(filepath.Dir(folder)), os.RemoveAll(deleting)), "remove the record of sandbox", id)
}

// deletingPrefix is the name prefix of folders that are being removed. Sandbox IDs can't begin with
// it.
const deletingPrefix = ".going-"

// damagedPrefix is the name prefix of folders with a record that can't be read. Sandbox IDs can't
// begin with it.
const damagedPrefix = ".damaged-"

// readRecords reads all records in a folder and completes interrupted removals. It renames folders
// with damaged records, so that a new sandbox does not overwrite them.
func readRecords(folder string) (all []record, damaged []error, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, fault.Wrap(err, "read the records of sandboxes", folder)
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), deletingPrefix):
			if err := os.RemoveAll(path); err != nil {
				return nil, nil, fault.Wrap(err, "remove", path)
			}
			continue
		case strings.HasPrefix(e.Name(), damagedPrefix) || !e.IsDir():
			continue
		}
		text, err := os.ReadFile(filepath.Join(path, recordFile))
		if errors.Is(err, fs.ErrNotExist) { // the host agent died before it wrote the record
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
			err = errors.New("it belongs to another sandbox")
		}
		if err != nil {
			aside := filepath.Join(folder, damagedPrefix+e.Name())
			damaged = append(damaged, &fault.Error{
				Op: "read the record of sandbox", Subject: e.Name(), Kind: fault.Corrupt, Err: err, Hint: "repair " + aside + " and move it back, or delete its workspace: pyro workspace list",
			})
			if err := errors.Join(os.RemoveAll(aside), os.Rename(path, aside)); err != nil {
				return nil, nil, fault.Wrap(err, "set aside", path)
			}
			continue
		}
		all = append(all, r)
	}
	return all, damaged, nil
}
