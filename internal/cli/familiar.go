package cli

import "github.com/spf13/cobra"

// familiarWords maps command words that users know from shells and similar programs to pyro
// commands. It contains no names of the commands of "pyro workspace" and "pyro env", except where
// another command is meant.
var familiarWords = map[string]string{
	"attach": "workspace shell attach", "download": "workspace export", "history": "workspace logs", "image": "env list", "images": "env list",
	"info": "doctor", "init": "prepare", "inspect": "workspace status", "ls": "workspace list", "open": "workspace shell open", "ps": "workspace list",
	"remove": "workspace delete", "rename": "workspace update", "restart": "workspace start", "rm": "workspace delete", "rmi": "env prune", "setup": "prepare",
	"sh": "workspace shell open", "show": "workspace status", "ssh": "workspace shell attach", "top": "workspace stats", "unpause": "workspace resume",
	"upload": "workspace sync push",
}

// familiarEnvWords maps words that have another meaning after "pyro env".
var familiarEnvWords = map[string]string{"add": "env pull", "install": "env pull", "ls": "env list", "remove": "env prune", "rm": "env prune", "show": "env inspect"}

// meantCommand returns the command that the user probably means by a word, or "" if there is none.
func meantCommand(cmd *cobra.Command, word string) string {
	root := cmd.Root()
	if cmd.Name() == "env" && familiarEnvWords[word] != "" {
		return root.Name() + " " + familiarEnvWords[word]
	}
	if cmd.HasParent() && cmd.Name() != "workspace" {
		return ""
	}
	if familiarWords[word] != "" {
		return root.Name() + " " + familiarWords[word]
	}
	for _, group := range []string{"workspace", "env"} {
		if found, rest, err := root.Find([]string{group, word}); err == nil && len(rest) == 0 {
			return found.CommandPath()
		}
	}
	return ""
}
