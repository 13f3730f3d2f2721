package dirs

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// programName is what the command is called.
const programName = "pyro"

// Program finds the command pyro: the one that is given, or else that of PYRO_PROGRAM, or else this program where it is pyro, or else pyro in the folder of this
// program or in PATH. Unavailable where it is not there.
func Program(given string) (string, error) {
	if given == "" {
		given = os.Getenv("PYRO_PROGRAM")
	}
	if given != "" {
		path, err := filepath.Abs(given)
		if err == nil && !isProgram(path) {
			err = fault.New(fault.Unavailable, "find the command pyro", path, "it is no program").WithHint("set PYRO_PROGRAM to the path of pyro")
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
