package cli

import "github.com/spf13/cobra"

// familiarWords maps command words that users know from shells and similar programs to pyro
// commands.
var familiarWords = map[string]string{
	"attach": "workspace shell attach", "build": "env pull", "commit": "workspace snapshot create", "cp": "workspace sync push", "history": "workspace logs",
	"image": "env list", "images": "env list", "info": "doctor", "init": "prepare", "inspect": "workspace status", "kill": "workspace stop", "ls": "workspace list",
	"open": "workspace shell open", "ps": "workspace list", "pull": "env pull", "push": "workspace sync push", "remove": "workspace delete", "rename": "workspace update",
	"restart": "workspace start", "rm": "workspace delete", "rmi": "env prune", "serve": "mcp serve", "setup": "prepare", "sh": "workspace shell open", "show": "workspace status",
	"ssh": "workspace shell attach", "top": "workspace service list", "unpause": "workspace resume", "upload": "workspace sync push", "download": "workspace export",
}

// familiarEnvWords maps words that have another meaning after "pyro env".
var familiarEnvWords = map[string]string{"add": "env pull", "install": "env pull", "ls": "env list", "remove": "env prune", "rm": "env prune", "show": "env inspect"}

// meantCommand returns the command that the user probably means by a word, or "" if there is none.
func meantCommand(cmd *cobra.Command, word string) string {
	root := cmd.Root()
	if cmd.Name() == "env" && familiarEnvWords[word] != "" {
		return root.Name() + " " + familiarEnvWords[word]
	}
	if !cmd.HasParent() || cmd.Name() == "workspace" {
		if familiarWords[word] != "" {
			return root.Name() + " " + familiarWords[word]
		}
	}
	if cmd.HasParent() {
		return ""
	}
	if found, rest, err := root.Find([]string{"workspace", word}); err == nil && len(rest) == 0 {
		return found.CommandPath()
	}
	return ""
}
