package dirs

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// programName is the name of the command.
const programName = "pyro"

// Program returns the path of the command pyro. It uses the first of these that is set or exists:
//   - the path given.
//   - the path in PYRO_PROGRAM.
//   - this program, if its name is pyro.
//   - the program pyro in the folder of this program.
//   - the program pyro in PATH.
//
// Unavailable: there is no such program.
func Program(given string) (string, error) {
	if given == "" {
		given = os.Getenv("PYRO_PROGRAM")
	}
	if given != "" {
		path, err := filepath.Abs(given)
		if err == nil && !isProgram(path) {
			err = fault.New(fault.Unavailable, "find the command pyro", path, "it is not a program").WithHint("set PYRO_PROGRAM to the path of pyro")
		}
		return path, err
	}
	own, err := os.Executable()
	if err == nil && filepath.Base(own) == programName {
		return own, nil
	}
	if beside := filepath.Join(filepath.Dir(own), programName); err == nil && isProgram(beside) {
		return beside, nil
	}
	found, err := exec.LookPath(programName)
	if err != nil {
		return "", fault.New(fault.Unavailable, "find the command pyro", "", "it is not in PATH").WithHint("set PYRO_PROGRAM to its path")
	}
	return filepath.Abs(found)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
