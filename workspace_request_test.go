package pyro

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestInvalidRequests(t *testing.T) {
	p := withWorkspaces(t)
	id := p.create(t, nil)
	vm, err := p.CreateVM(t.Context(), CreateVMRequest{Environment: "debian:12", AllowHostCompat: true})
	if err != nil {
		t.Fatal(err)
	}
	create := func(change func(*CreateWorkspaceRequest)) func(context.Context) error {
		return func(ctx context.Context) error {
			req := CreateWorkspaceRequest{Environment: "debian:12", AllowHostCompat: true}
			change(&req)
			return only(p.CreateWorkspace(ctx, req))
		}
	}
	createVM := func(change func(*CreateVMRequest)) func(context.Context) error {
		return func(ctx context.Context) error {
			req := CreateVMRequest{Environment: "debian:12", AllowHostCompat: true}
			change(&req)
			return only(p.CreateVM(ctx, req))
		}
	}
	execute := func(change func(*ExecWorkspaceRequest)) func(context.Context) error {
		return func(ctx context.Context) error {
			req := ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"true"}}
			change(&req)
			return only(p.ExecWorkspace(ctx, req))
		}
	}
	executeVM := func(change func(*ExecVMRequest)) func(context.Context) error {
		return func(ctx context.Context) error {
			req := ExecVMRequest{VMID: vm.VMID, Argv: []string{"true"}}
			change(&req)
			return only(p.ExecVM(ctx, req))
		}
	}
	rename := func(u UpdateWorkspaceRequest) func(context.Context) error {
		return func(ctx context.Context) error {
			u.WorkspaceID = id
			return only(p.UpdateWorkspace(ctx, u))
		}
	}
	list := func(path string) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.ListWorkspaceFiles(ctx, ListWorkspaceFilesRequest{WorkspaceID: id, Path: path}))
		}
	}
	read := func(path string, most int) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.ReadWorkspaceFile(ctx, ReadWorkspaceFileRequest{WorkspaceID: id, Path: path, MaxBytes: most}))
		}
	}
	readDisk := func(path string, most int) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.ReadWorkspaceDisk(ctx, ReadWorkspaceDiskRequest{WorkspaceID: id, Path: path, MaxBytes: most}))
		}
	}
	write := func(path, text string) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.WriteWorkspaceFile(ctx, WriteWorkspaceFileRequest{WorkspaceID: id, Path: path, Text: text}))
		}
	}
	push := func(source, dest string) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.PushWorkspaceSync(ctx, PushWorkspaceSyncRequest{WorkspaceID: id, SourcePath: source, Dest: dest}))
		}
	}
	export := func(path, output string) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.ExportWorkspace(ctx, ExportWorkspaceRequest{WorkspaceID: id, Path: path, OutputPath: output}))
		}
	}
	apply := func(text string) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.ApplyWorkspacePatch(ctx, ApplyWorkspacePatchRequest{WorkspaceID: id, Patch: text}))
		}
	}
	snapshot := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.CreateSnapshot(ctx, CreateSnapshotRequest{WorkspaceID: id, SnapshotName: name}))
		}
	}
	fork := func(snapshot string, count int) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.ForkWorkspace(ctx, ForkWorkspaceRequest{WorkspaceID: id, Snapshot: snapshot, Count: count}))
		}
	}
	deleteSnapshot := func(name string) func(context.Context) error {
		return func(ctx context.Context) error { return only(p.DeleteSnapshot(ctx, id, name)) }
	}
	publish := func(ports ...PublishedPort) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.StartService(ctx, StartServiceRequest{WorkspaceID: id, ServiceName: "s", Argv: []string{"true"}, PublishedPorts: ports}))
		}
	}
	networkLog := func(lines int) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(p.NetworkLog(ctx, NetworkLogRequest{WorkspaceID: id, TailLines: lines}))
		}
	}
	many := make([]PublishedPort, 33)
	for i := range many {
		many[i].GuestPort = i + 1
	}
	labels := map[string]string{}
	for i := range 65 {
		labels["k"+strconv.Itoa(i)] = ""
	}
	name := "n"
	long := strings.Repeat("n", 129)
	source, output := t.TempDir(), filepath.Join(t.TempDir(), "out")
	for what, c := range map[string]struct {
		call func(context.Context) error
		kind Kind
		says string
	}{
		"create: no environment":           {create(func(r *CreateWorkspaceRequest) { r.Environment = "" }), Invalid, "environment is missing"},
		"create: a misspelled environment": {create(func(r *CreateWorkspaceRequest) { r.Environment = "debain:12" }), NotFound, "did you mean debian:12"},
		"create: too many CPUs":            {create(func(r *CreateWorkspaceRequest) { r.VCPUCount = 33 }), Invalid, "vcpu_count is 33: it must be 1 to 32"},
		"create: little memory":            {create(func(r *CreateWorkspaceRequest) { r.MemMiB = 127 }), Invalid, "mem_mib is 127"},
		"create: small disk":               {create(func(r *CreateWorkspaceRequest) { r.DiskMiB = 63 }), Invalid, "disk_mib is 63: it must be 64 to 16384"},
		"create: large disk":               {create(func(r *CreateWorkspaceRequest) { r.DiskMiB = 16385 }), Invalid, "disk_mib is 16385"},
		"create: time to live":             {create(func(r *CreateWorkspaceRequest) { r.TTLSeconds = MaxSeconds + 1 }), Invalid, "ttl_seconds"},
		"create: isolation":                {create(func(r *CreateWorkspaceRequest) { r.Isolation = "xen" }), Invalid, "isolation is \"xen\""},
		"create: name of two lines":        {create(func(r *CreateWorkspaceRequest) { r.Name = "a\nb" }), Invalid, "one line"},
		"create: blank name":               {create(func(r *CreateWorkspaceRequest) { r.Name = " " }), Invalid, "one line of 1 to 128"},
		"create: long name":                {create(func(r *CreateWorkspaceRequest) { r.Name = long }), Invalid, "1 to 128 characters"},
		"create: many labels":              {create(func(r *CreateWorkspaceRequest) { r.Labels = labels }), Invalid, "65 labels: at most 64"},
		"create: no seed":                  {create(func(r *CreateWorkspaceRequest) { r.SeedPath = source + "/none" }), NotFound, source + "/none"},
		"create: no policy":                {create(func(r *CreateWorkspaceRequest) { r.NetworkPolicy = "on" }), Invalid, "network_policy is \"on\": it must be off, egress or"},
		"create: rules, no network":        {create(func(r *CreateWorkspaceRequest) { r.EgressAllow = []string{"x.test"} }), Invalid, "there are network rules, but the network is off"},
		"create: rules, policy off": {create(func(r *CreateWorkspaceRequest) {
			r.NetworkPolicy, r.EgressDeny = NetworkOff, []string{"x.test"}
		}), Invalid, "there are network rules, but the network is off"},
		"create: no rule": {create(func(r *CreateWorkspaceRequest) {
			r.NetworkPolicy, r.EgressAllow = NetworkEgress, []string{"x.test", ""}
		}), Invalid, "rule to allow: \"\" is not a rule"},
		"create: no range": {create(func(r *CreateWorkspaceRequest) {
			r.NetworkPolicy, r.EgressDeny = NetworkPublished, []string{"192.0.2.0/33"}
		}), Invalid, "rule to deny: \"192.0.2.0/33\" is not a rule"},
		"create: too many rules": {create(func(r *CreateWorkspaceRequest) {
			r.NetworkPolicy, r.EgressAllow = NetworkEgress, slices.Repeat([]string{"x.test"}, 257)
		}), Invalid, "257 rules to allow: at most 256"},
		"create: host, network":            {create(func(r *CreateWorkspaceRequest) { r.NetworkPolicy = NetworkEgress }), Unsupported, "host_compat can't have a network policy"},
		"create: host, ports":              {create(func(r *CreateWorkspaceRequest) { r.NetworkPolicy = NetworkPublished }), Unsupported, "host_compat can't have a network policy"},
		"create: no machine":               {create(func(r *CreateWorkspaceRequest) { r.AllowHostCompat = false }), Unavailable, "no machine can be started"},
		"create: an unavailable isolation": {create(func(r *CreateWorkspaceRequest) { r.Isolation = IsolationTCG }), Unavailable, "tcg"},
		"create vm: no environment":        {createVM(func(r *CreateVMRequest) { r.Environment = "" }), Invalid, "environment is missing"},
		"create vm: CPUs":                  {createVM(func(r *CreateVMRequest) { r.VCPUCount = -1 }), Invalid, "vcpu_count"},
		"create vm: memory":                {createVM(func(r *CreateVMRequest) { r.MemMiB = 1 << 40 }), Invalid, "mem_mib"},
		"create vm: time to live":          {createVM(func(r *CreateVMRequest) { r.TTLSeconds = -1 }), Invalid, "ttl_seconds is -1"},
		"create vm: network":               {createVM(func(r *CreateVMRequest) { r.Network = true }), Unsupported, "host_compat can't have a network policy"},
		"create vm: rules alone":           {createVM(func(r *CreateVMRequest) { r.EgressAllow = []string{"x.test"} }), Invalid, "there are network rules, but the network is off"},
		"create vm: no rule":               {createVM(func(r *CreateVMRequest) { r.Network, r.EgressDeny = true, []string{"x"} }), Invalid, "rule to deny: \"x\" is not a rule"},
		"create vm: no machine":            {createVM(func(r *CreateVMRequest) { r.AllowHostCompat = false }), Unavailable, "no machine can be started"},
		"update: nothing":                  {rename(UpdateWorkspaceRequest{}), Invalid, "nothing to update"},
		"update: set and cleared":          {rename(UpdateWorkspaceRequest{Name: &name, ClearName: true}), Invalid, "exclude each other"},
		"update: label both ways":          {rename(UpdateWorkspaceRequest{Labels: map[string]string{"a": ""}, ClearLabels: []string{"a"}}), Invalid, "both set and removed"},
		"update: label without key":        {rename(UpdateWorkspaceRequest{Labels: map[string]string{"": "x"}}), Invalid, "valid key of a label"},
		"update: key with a space":         {rename(UpdateWorkspaceRequest{Labels: map[string]string{"a b": "x"}}), Invalid, "valid key of a label"},
		"update: value of two lines":       {rename(UpdateWorkspaceRequest{Labels: map[string]string{"a": "x\ny"}}), Invalid, "the value of label a"},
		"update: long value":               {rename(UpdateWorkspaceRequest{Labels: map[string]string{"a": strings.Repeat("x", 257)}}), Invalid, "at most 256"},
		"update: CPUs":                     {rename(UpdateWorkspaceRequest{VCPUCount: -1}), Invalid, "vcpu_count"},
		"update: memory":                   {rename(UpdateWorkspaceRequest{MemMiB: 1 << 40}), Invalid, "mem_mib"},
		"update: time to live":             {rename(UpdateWorkspaceRequest{TTLSeconds: -1}), Invalid, "ttl_seconds is -1"},
		"update: policy":                   {rename(UpdateWorkspaceRequest{NetworkPolicy: "all"}), Invalid, "network_policy is \"all\""},
		"update: rules alone":              {rename(UpdateWorkspaceRequest{EgressDeny: []string{"x.test"}}), Invalid, "there are network rules, but the network is off"},
		"update: rules and off":            {rename(UpdateWorkspaceRequest{NetworkPolicy: NetworkOff, EgressDeny: []string{"x.test"}}), Invalid, "the network is off"},
		"update: no rule":                  {rename(UpdateWorkspaceRequest{EgressAllow: []string{"x"}}), Invalid, "is not a rule"},
		"update: host, network":            {rename(UpdateWorkspaceRequest{NetworkPolicy: NetworkEgress}), Unsupported, "host_compat can't have a network policy"},
		"update: name not UTF-8":           {rename(UpdateWorkspaceRequest{Name: new("\xff")}), Invalid, "one line"},
		"exec: no id":                      {execute(func(r *ExecWorkspaceRequest) { r.WorkspaceID = "" }), Invalid, "workspace_id is missing"},
		"exec: nothing":                    {execute(func(r *ExecWorkspaceRequest) { r.Argv = nil }), Invalid, "set argv or command"},
		"exec: both":                       {execute(func(r *ExecWorkspaceRequest) { r.Command = "true" }), Invalid, "exclude each other"},
		"exec: empty program":              {execute(func(r *ExecWorkspaceRequest) { r.Argv = []string{""} }), Invalid, "program is empty"},
		"exec: NUL":                        {execute(func(r *ExecWorkspaceRequest) { r.Argv = []string{"a", "\x00"} }), Invalid, "NUL"},
		"exec: variable":                   {execute(func(r *ExecWorkspaceRequest) { r.Env = map[string]string{"A=": ""} }), Invalid, "not an environment variable"},
		"exec: negative time":              {execute(func(r *ExecWorkspaceRequest) { r.TimeoutSeconds = -1 }), Invalid, "timeout_seconds is -1"},
		"exec: too much time":              {execute(func(r *ExecWorkspaceRequest) { r.TimeoutSeconds = MaxSeconds + 1 }), Invalid, "timeout_seconds"},
		"exec: no terminal":                {execute(func(r *ExecWorkspaceRequest) { r.TTY = &TTY{} }), Invalid, "terminal of 0 x 0"},
		"exec vm: no id":                   {executeVM(func(r *ExecVMRequest) { r.VMID = "" }), Invalid, "vm_id is missing"},
		"exec vm: nothing":                 {executeVM(func(r *ExecVMRequest) { r.Argv = nil }), Invalid, "set argv or command"},
		"exec vm: both":                    {executeVM(func(r *ExecVMRequest) { r.Command = "true" }), Invalid, "exclude each other"},
		"exec vm: time":                    {executeVM(func(r *ExecVMRequest) { r.TimeoutSeconds = -1 }), Invalid, "timeout_seconds"},
		"exec vm: not started":             {executeVM(func(*ExecVMRequest) {}), Precondition, "vm-"},
		"list: outside":                    {list("/etc"), Invalid, "is not below /workspace"},
		"list: out of /workspace":          {list("a/../../etc"), Invalid, "is not below /workspace"},
		"list: next to /workspace":         {list("/workspaces"), Invalid, "is not below /workspace"},
		"list: NUL":                        {list("a\x00"), Invalid, "is not a path"},
		"list: nothing there":              {list("none"), NotFound, "file does not exist"},
		"read: outside":                    {read("../etc/passwd", 0), Invalid, "is not below /workspace"},
		"read: long path":                  {read(strings.Repeat("a/", 2049), 0), Invalid, "is not a path"},
		"read: negative":                   {read("f", -1), Invalid, "max_bytes is -1: it must be 1 to 16777216"},
		"read: too much":                   {read("f", MaxReadBytes+1), Invalid, "max_bytes"},
		"read: nothing there":              {read("none", 0), NotFound, "file does not exist"},
		"read disk: no path":               {readDisk("", 0), Invalid, "path is missing"},
		"read disk: too much":              {readDisk("f", MaxReadBytes+1), Invalid, "max_bytes"},
		"read disk: NUL":                   {readDisk("f\x00", 0), Invalid, "is not a path"},
		"write: no path":                   {write("", "x"), Invalid, "path is missing"},
		"write: outside":                   {write("/f", "x"), Invalid, "is not below /workspace"},
		"write: the folder":                {write("/workspace/.", "x"), Invalid, "it is a folder"},
		"write: NUL":                       {write("f", "a\x00"), Invalid, "NUL"},
		"write: not UTF-8":                 {write("f", "\xff"), Invalid, "not UTF-8"},
		"write: too much":                  {write("f", strings.Repeat("x", MaxWriteBytes+1)), Exhausted, "16777217 bytes: at most 16777216"},
		"push: no source":                  {push("", ""), Invalid, "source_path is missing"},
		"push: outside of the host":        {push(source, "/etc"), Permission, "host_compat allows no other paths"},
		"push: nothing there":              {push(source+"/none", ""), NotFound, source + "/none"},
		"export: no path":                  {export("", output), Invalid, "path is missing"},
		"export: no output":                {export("f", ""), Invalid, "output_path is missing"},
		"export: outside":                  {export("/etc", output), Invalid, "is not below /workspace"},
		"export: nothing there":            {export("none", output), NotFound, "file does not exist"},
		"patch: none":                      {apply(""), Invalid, "patch is missing"},
		"patch: no patch":                  {apply("nonsense"), Invalid, "patch"},
		"patch: does not fit":              {apply("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n"), Precondition, "f"},
		"snapshot: no name":                {snapshot(""), Invalid, "is not"},
		"snapshot: baseline":               {snapshot("baseline"), Invalid, "reserved"},
		"snapshot: hidden":                 {snapshot(".s"), Invalid, "not begin with a dot or dash"},
		"snapshot: a path":                 {snapshot("a/b"), Invalid, "letters, digits"},
		"snapshot: long":                   {snapshot(strings.Repeat("s", 65)), Invalid, "1 to 64"},
		"publish: port 0":                  {publish(PublishedPort{}), Invalid, "0:0 are not ports"},
		"publish: large port":              {publish(PublishedPort{GuestPort: 65536}), Invalid, "0:65536 are not ports"},
		"publish: large host port":         {publish(PublishedPort{GuestPort: 1, HostPort: 65536}), Invalid, "65536:1 are not ports"},
		"publish: negative":                {publish(PublishedPort{GuestPort: 1, HostPort: -1}), Invalid, "-1:1 are not ports"},
		"publish: twice":                   {publish(PublishedPort{GuestPort: 80}, PublishedPort{GuestPort: 80, HostPort: 8080}), Invalid, "port 80 is published twice"},
		"publish: two on one":              {publish(PublishedPort{GuestPort: 80, HostPort: 8080}, PublishedPort{GuestPort: 81, HostPort: 8080}), Invalid, "port 8080 of the host is given for two ports"},
		"publish: too many":                {publish(many...), Invalid, "33 ports: a service can publish at most 32"},
		"publish: policy off":              {publish(PublishedPort{GuestPort: 80}), Precondition, "the network policy of the workspace is off"},
		"network log: negative":            {networkLog(-1), Invalid, "tail_lines is -1: it must be 1 to 1048576"},
		"network log: too much":            {networkLog(1<<20 + 1), Invalid, "tail_lines"},
		"delete snapshot: baseline":        {deleteSnapshot("baseline"), Invalid, "can't be deleted"},
		"delete snapshot: none":            {deleteSnapshot("none"), NotFound, "no snapshot with this name"},
		"reset: no snapshot": {func(ctx context.Context) error {
			return only(p.ResetWorkspace(ctx, ResetWorkspaceRequest{WorkspaceID: id, Snapshot: "none"}))
		}, NotFound, "no snapshot with this name"},
		"fork: a negative count": {fork("", -1), Invalid, "count is -1: it must be 1 to 64"},
		"fork: too many":         {fork("", MaxForks+1), Invalid, "count is 65"},
		"fork: no snapshot":      {fork("none", 1), NotFound, "no snapshot with this name"},
		"export disk: no output": {func(ctx context.Context) error {
			return only(p.ExportWorkspaceDisk(ctx, ExportWorkspaceDiskRequest{WorkspaceID: id}))
		}, Invalid, "output_path is missing"},
		"export disk: over something": {func(ctx context.Context) error {
			return only(p.ExportWorkspaceDisk(ctx, ExportWorkspaceDiskRequest{WorkspaceID: id, OutputPath: source}))
		}, Exists, "it already exists"},
	} {
		t.Run(what, func(t *testing.T) {
			if err := c.call(t.Context()); KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q: %v", KindOf(err), err)
			}
		})
	}
	var conflict *PatchConflict
	if err := apply("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n")(t.Context()); !errors.As(err, &conflict) {
		t.Errorf("no conflict: %v", err)
	}
	now, err := p.StatusWorkspace(t.Context(), id)
	if err != nil || now.State != StateStarted || now.Name != "" || len(now.Labels) > 0 || now.CommandCount > 0 {
		t.Errorf("afterwards: %+v, %v", now, err)
	}
	if d, err := p.DiffWorkspace(t.Context(), DiffWorkspaceRequest{WorkspaceID: id}); err != nil || d.Changed {
		t.Errorf("afterwards: %+v, %v", d, err)
	}
}

// only returns the error of a call and discards the result.
func only(_ any, err error) error { return err }
