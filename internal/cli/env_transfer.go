package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newEnvCommit() *cobra.Command {
	var r pyro.CommitWorkspaceRequest
	cmd := command("commit WORKSPACE", "Make an environment from a workspace",
		`Make an environment from the files of a workspace: the files of its environment with all changes,
and its files in /workspace. A new workspace of this environment begins with these files, unless it
has a seed. The environment contains no running programs. The workspace does not change.`,
		`  pyro env commit ws-1a2b3c -t tool:1
  pyro run tool:1 -- ls /workspace`,
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Environment, error) {
				r.WorkspaceID, r.Progress = args[0], report
				return p.CommitWorkspace(ctx, r)
			}, func(e *pyro.Environment) error {
				_, err := fmt.Printf("made %s: %s, %s\n", e.Name, size(e.SizeBytes), e.Digest)
				return err
			})
		})
	cmd.Flags().StringVarP(&r.Name, "tag", "t", "", "`NAME[:TAG]` of the environment (required)")
	cmd.Flags().BoolVar(&r.OmitWorkspace, "omit-workspace", false, "leave out the files of /workspace")
	cmd.MarkFlagRequired("tag")
	cmd.ValidArgsFunction = completeWorkspace
	return cmd
}

func newEnvPush() *cobra.Command {
	cmd := command("push ENV [TARGET]", "Write an environment to an OCI registry",
		`Write an installed environment to an OCI registry, under its own name or as TARGET. Credentials come
from docker login. The base of the environment is one layer, and each step of its build is another
layer.`,
		`  pyro env push registry.example/team/tool:1
  pyro env push tool:1 localhost:5000/tool:1`,
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.PushedEnvironment, error) {
				r := pyro.PushEnvironmentRequest{Environment: args[0], Progress: report}
				if len(args) > 1 {
					r.Target = args[1]
				}
				return p.PushEnvironment(ctx, r)
			}, func(e *pyro.PushedEnvironment) error {
				_, err := fmt.Printf("pushed %s: %s\n", e.Target, e.ManifestDigest)
				return err
			})
		})
	cmd.ValidArgsFunction = completeEnvironment
	return cmd
}

func newEnvSave() *cobra.Command {
	cmd := command("save ENV PATH", "Write an environment as an OCI layout",
		`Write an installed environment as an OCI layout, which env load, skopeo and buildah can read. If PATH
ends in .tar, the layout is a tar archive, otherwise a new folder.`,
		`  pyro env save tool:1 tool.tar`,
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.SavedEnvironment, error) {
				return p.SaveEnvironment(ctx, pyro.SaveEnvironmentRequest{Environment: args[0], OutputPath: args[1], Progress: report})
			}, func(e *pyro.SavedEnvironment) error {
				_, err := fmt.Printf("saved %s as %s\n", e.Environment, e.OutputPath)
				return err
			})
		})
	cmd.ValidArgsFunction = completeEnvironment
	return cmd
}

func newEnvLoad() *cobra.Command {
	var r pyro.LoadEnvironmentRequest
	cmd := command("load PATH", "Install an environment from an OCI layout",
		`Install an environment from an OCI layout: a folder or a tar archive, such as env save, skopeo and
buildah write.`,
		`  pyro env load tool.tar
  pyro env load layout -t tool:2`,
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Environment, error) {
				r.Path, r.Progress = args[0], report
				return p.LoadEnvironment(ctx, r)
			}, showInstalled)
		})
	cmd.Flags().StringVarP(&r.Name, "tag", "t", "", "`NAME[:TAG]` of the environment (default: the name in the layout)")
	return cmd
}
