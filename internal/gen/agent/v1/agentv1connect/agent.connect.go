// The protocol between a machine's supervisor and the agent inside the machine.
//
// The agent serves this protocol as Connect over HTTP/2 on one byte stream (internal/agent/link).
// The supervisor and the agent always come from the same source tree. So a new version of the
// protocol does not need to support an older one. If a template contains another agent, the
// template is built again. The supervisor treats everything that the agent sends as hostile, so
// every field has a limit. The limits are stated here, and the client enforces them.
//
// File content is not part of this service. It is sent as plain HTTP/2 bodies on the same byte
// stream, or through memory that the supervisor and the agent share:
//
//   GET /file?path=P&offset=N&limit=N
//       Returns the content of a regular file. Limit 0 means up to the end of the file.
//   PUT /file?path=P&mode=M&parents=B&size=N
//       Replaces a file, or the target of a link. The agent writes a new file in the same folder
//       and flushes it. When the body is complete, it renames the new file to the path. The mode
//       is decimal. Mode 0 means the mode of the existing file, or 0644 for a new file. If parents
//       is true, missing parent folders are created. Size -1 means up to the end of the body.
//   DELETE /file?path=P
//       Removes a file, or a folder with its content. A link is removed, but not its target.
//   PUT /folder?path=P
//       Creates a folder and its missing parents.
//   PUT /rename?path=P&to=P
//       Moves a file, or a folder with its content, to a path that does not exist. A link is moved,
//       but not its target. If the parent of the new path does not exist, the status is 404 and
//       Pyro-Error contains the path of the parent. The request is not idempotent.
//   GET /list?path=P&depth=N
//       Lists a path and its content up to a depth, in the format of /volume/list. Depth 0 lists
//       only the path itself, and then the request does not follow a link at the end of the path.
//   GET /tree?path=P&as=N
//       Returns a tar archive of a file, or of a folder with its content, as GET /volume/tree does.
//       The names begin with N, which is a single name or "."; the default is the last part of the
//       path. The archive has owners, and extended attributes as SCHILY.xattr records. The request
//       follows a link at the end of the path only if a slash follows. The content of file systems
//       that the kernel generates is omitted, for example of /proc.
//   GET /tree?path=P&list=1
//       Returns a tar archive of the files that a list names, without the content of folders. P is
//       the path of the list. It contains paths without a slash at the start, each followed by a
//       NUL. Files that no longer exist are omitted.
//   PUT /tree?path=P&uid=N&gid=N
//       Unpacks a tar archive below a folder, which is created if it is missing. Existing folders
//       are merged, and other existing files are replaced. The agent follows links to folders. A
//       file gets its name when it is complete, but the request is not atomic. With uid and gid,
//       all files get this owner, and existing folders keep their attributes. Devices and pipes are
//       omitted. The trailer Counts has seven numbers: files, new folders, links, replaced files
//       and links, bytes of content, omitted files, and attributes that the file system does not
//       accept. When the agent responds, the files are on disk.
//   POST /dial?address=A
//       Connects to a port on a loopback address. The body of the request is sent to the port, and
//       the body of the response is received from it. At the end of the request's body, the program
//       reads the end of the connection, and can still send. The connection ends when the program
//       closes it or the request is cancelled. Status 503 means that no program listens on the
//       port.
//
// An error before the content is an HTTP status with the header Pyro-Error:
//
//   400   unusable request
//   403   denied
//   404   not found
//   409   not a regular file
//   412   the machine is not renewed, or the file system is not mounted
//   422   the path exists already
//   503   the content can't be read to the end
//   507   no space
//
// An error after the start of the content is the trailer Pyro-Error. The header and the trailer
// contain a query string with the fields status and text. If the error is about one path, they also
// contain the field path. A response without an error ends with the trailer Pyro-Whole: 1. A
// response that ends with neither trailer is incomplete (internal/content).
//
// If a request has window=1, the content goes through the shared buffer
// (internal/agent/sharedbuffer), which serves one request at a time. The response then has the
// header Window. If the buffer can't be used, a GET returns the content as a body. A PUT then fails
// with 423 before the agent reads the content.
//
// The volume still exists after the machine has ended (see Mount). Its requests have the same
// statuses:
//
//   GET /volume/file?path=P&offset=N&limit=N
//       As GET /file.
//   PUT /volume/file?path=P&mode=M&parents=B&size=N
//       As PUT /file. It creates no missing parent folders of a link's target.
//   GET /volume/list?path=P&recursive=B
//       Lists a folder.
//   GET /volume/list?path=P&recursive=B&alone=1
//       Lists only the path itself. The request follows no links, not even in parent folders.
//   GET /volume/tree?path=P
//       Returns a tar archive of a folder with its content, or of any other file.
//   PUT /volume/change
//       Applies a tar archive of operations: either all of them or none.
//
// In requests for the volume, paths are relative to /workspace, and the empty path is /workspace
// itself. A path has no empty part, no "." and no "..". It has at most 4096 bytes, and none of them
// is NUL. The agent follows links in parent folders within /workspace. Lists, reads and
// writes also follow a link at the end of the path. If a link leads out of /workspace, as every
// absolute link does, the request fails with 403. The agent sends lists and trees while it makes
// them, so their errors are often trailers.
//
// The first record of a list is for the path itself. The other records are for the files in this
// folder. A recursive list also has the files in all subfolders. A folder comes before its content,
// and the names in a folder are sorted by their bytes. Files that are removed meanwhile are
// omitted. Numbers are varints as in protobuf, and signed numbers are in zigzag encoding. Lengths
// are in bytes:
//
//   kind       1 file, 2 folder, 3 symbolic link, 4 other; 0 ends the list, and then only the
//              number of records follows
//   shared     length of the common prefix of this path and the previous record's path
//   rest       the rest of the path, relative to the requested path: length, bytes
//   mode       permission, set-id and sticky bits
//   size
//   mtime      nanoseconds since 1970, as the signed difference from the previous record's mtime
//   ctime      nanoseconds since 1970, as the signed difference from this record's mtime
//   inode      the signed difference from the previous record's inode
//   uid, gid, nlink
//   target     only for a symbolic link: length, bytes; at most 4096 bytes
//
// A tree is a PAX archive. Its names begin with the last part of the path, or with "." for the
// empty path. If a regular file has several names, the archive has hard links for all names but the
// first. But a file outside of all folders named .git is never a link to a file in one of them.
// Sockets, pipes and devices are omitted. The trailer Counts has three numbers: entries, omitted
// files, and files that changed during the read. If the size of a file changes during the read, its
// content is padded with zeros or cut to the original size.
//
// A change is a PAX archive of files, folders, symbolic links and hard links to another path in
// the volume. The agent applies its entries in order. PAX records specify the operation of an
// entry:
//
//   PYRO.op       "put" or absent: the entry replaces a file or link. An existing folder keeps its
//                 content. Missing parents are created with mode 0755.
//                 "delete": removes a file, link or empty folder.
//                 "mode": changes only the permission, set-id and sticky bits.
//   PYRO.expect   the expected state before the change. Absent: any state. "absent": the file does
//                 not exist. Otherwise it has fields as in a list: inode:size:mtime:ctime:mode. The
//                 mode is in octal, and the other fields are in decimal.
//   PYRO.keep     "1": a file keeps the mode and owner of the file that it replaces. An existing
//                 folder keeps its mode.
//
// New files belong to root. A time of 0 means the time of the change. If an entry can't be applied,
// nothing is changed. The status is then 409 with the path if a file is not in the expected state,
// or 507 if there is no space. When the agent responds, the change is on disk. If the machine ends
// before that, the next Mount completes or undoes the change. The trailer Counts has four numbers:
// new entries, replaced entries, deleted entries, and bytes of content. Existing directories that
// are put do not count. A change has at most 1,000,000 entries.

// Code generated by protoc-gen-connect-go. DO NOT EDIT.
//
// Source: agent/v1/agent.proto

package agentv1connect

import (
	connect "connectrpc.com/connect"
	context "context"
	errors "errors"
	v1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	http "net/http"
	strings "strings"
)

// This is a compile-time assertion to ensure that this generated file and the connect package are
// compatible. If you get a compiler error that this constant is not defined, this code was
// generated with a version of connect newer than the one compiled into your binary. You can fix the
// problem by either regenerating this code with an older version of connect or updating the connect
// version compiled into your binary.
const _ = connect.IsAtLeastVersion1_13_0

const (
	// AgentServiceName is the fully-qualified name of the AgentService service.
	AgentServiceName = "agent.v1.AgentService"
)

// These constants are the fully-qualified names of the RPCs defined in this package. They're
// exposed at runtime as Spec.Procedure and as the final two segments of the HTTP route.
//
// Note that these are different from the fully-qualified method names used by
// google.golang.org/protobuf/reflect/protoreflect. To convert from these constants to
// reflection-formatted method names, remove the leading slash and convert the remaining slash to a
// period.
const (
	// AgentServiceStatusProcedure is the fully-qualified name of the AgentService's Status RPC.
	AgentServiceStatusProcedure = "/agent.v1.AgentService/Status"
	// AgentServiceRenewProcedure is the fully-qualified name of the AgentService's Renew RPC.
	AgentServiceRenewProcedure = "/agent.v1.AgentService/Renew"
	// AgentServiceExecProcedure is the fully-qualified name of the AgentService's Exec RPC.
	AgentServiceExecProcedure = "/agent.v1.AgentService/Exec"
	// AgentServiceFollowProcedure is the fully-qualified name of the AgentService's Follow RPC.
	AgentServiceFollowProcedure = "/agent.v1.AgentService/Follow"
	// AgentServiceAckProcedure is the fully-qualified name of the AgentService's Ack RPC.
	AgentServiceAckProcedure = "/agent.v1.AgentService/Ack"
	// AgentServiceInputProcedure is the fully-qualified name of the AgentService's Input RPC.
	AgentServiceInputProcedure = "/agent.v1.AgentService/Input"
	// AgentServiceSignalProcedure is the fully-qualified name of the AgentService's Signal RPC.
	AgentServiceSignalProcedure = "/agent.v1.AgentService/Signal"
	// AgentServiceResizeProcedure is the fully-qualified name of the AgentService's Resize RPC.
	AgentServiceResizeProcedure = "/agent.v1.AgentService/Resize"
	// AgentServiceReleaseProcedure is the fully-qualified name of the AgentService's Release RPC.
	AgentServiceReleaseProcedure = "/agent.v1.AgentService/Release"
	// AgentServiceStatProcedure is the fully-qualified name of the AgentService's Stat RPC.
	AgentServiceStatProcedure = "/agent.v1.AgentService/Stat"
	// AgentServiceWatchFoldersProcedure is the fully-qualified name of the AgentService's WatchFolders
	// RPC.
	AgentServiceWatchFoldersProcedure = "/agent.v1.AgentService/WatchFolders"
	// AgentServiceReadyProcedure is the fully-qualified name of the AgentService's Ready RPC.
	AgentServiceReadyProcedure = "/agent.v1.AgentService/Ready"
	// AgentServiceMountProcedure is the fully-qualified name of the AgentService's Mount RPC.
	AgentServiceMountProcedure = "/agent.v1.AgentService/Mount"
	// AgentServiceQuiesceProcedure is the fully-qualified name of the AgentService's Quiesce RPC.
	AgentServiceQuiesceProcedure = "/agent.v1.AgentService/Quiesce"
	// AgentServiceFreezeProcedure is the fully-qualified name of the AgentService's Freeze RPC.
	AgentServiceFreezeProcedure = "/agent.v1.AgentService/Freeze"
	// AgentServiceThawProcedure is the fully-qualified name of the AgentService's Thaw RPC.
	AgentServiceThawProcedure = "/agent.v1.AgentService/Thaw"
	// AgentServiceFlushProcedure is the fully-qualified name of the AgentService's Flush RPC.
	AgentServiceFlushProcedure = "/agent.v1.AgentService/Flush"
)

// AgentServiceClient is a client for the agent.v1.AgentService service.
type AgentServiceClient interface {
	// Status describes the agent. It also works before Renew.
	Status(context.Context, *connect.Request[v1.StatusRequest]) (*connect.Response[v1.StatusResponse], error)
	// Renew sets the clock, random pool, machine-id, host name and network of a machine after a start
	// or restore. After each start or restore, all calls except Status fail with FAILED_PRECONDITION
	// until Renew succeeds. It is idempotent.
	Renew(context.Context, *connect.Request[v1.RenewRequest]) (*connect.Response[v1.RenewResponse], error)
	// Exec starts a process and streams its events until the process ends. The caller chooses
	// exec_id. A second Exec with the same exec_id fails with ALREADY_EXISTS and starts nothing. The
	// process continues if the stream breaks. The caller can then call Follow to learn whether the
	// process was started.
	Exec(context.Context, *connect.Request[v1.ExecRequest]) (*connect.ServerStreamForClient[v1.ExecEvent], error)
	// Follow continues the stream of a process: it sends started, the output after the given offsets,
	// and exit. It fails with NOT_FOUND for an unknown exec_id.
	Follow(context.Context, *connect.Request[v1.FollowRequest]) (*connect.ServerStreamForClient[v1.ExecEvent], error)
	// Ack acknowledges all output before the given offsets. If the ring buffer of a process is full
	// of unacknowledged output, the process blocks when it writes more.
	Ack(context.Context, *connect.Request[v1.AckRequest]) (*connect.Response[v1.AckResponse], error)
	// Input writes to the standard input. It is idempotent, because it skips bytes before the
	// accepted offset. It returns when the bytes are in the pipe or PTY, so a process that reads
	// slowly slows down the caller. If the process has closed its input, the response has closed set.
	// A request without data and eof writes nothing. It does not wait for other requests, and only
	// line_limit is set in its response.
	Input(context.Context, *connect.Request[v1.InputRequest]) (*connect.Response[v1.InputResponse], error)
	// Signal sends a signal to the process group, or kills all processes that the exec started.
	Signal(context.Context, *connect.Request[v1.SignalRequest]) (*connect.Response[v1.SignalResponse], error)
	// Resize sets the size of the PTY. It fails with FAILED_PRECONDITION if there is none.
	Resize(context.Context, *connect.Request[v1.ResizeRequest]) (*connect.Response[v1.ResizeResponse], error)
	// Release deletes a process with its output. If the process is still running, it is deleted when
	// it ends. Its ID can't be used again. Release is idempotent.
	Release(context.Context, *connect.Request[v1.ReleaseRequest]) (*connect.Response[v1.ReleaseResponse], error)
	// Stat describes a path. It does not follow a link at the end of the path.
	Stat(context.Context, *connect.Request[v1.StatRequest]) (*connect.Response[v1.StatResponse], error)
	// WatchFolders reports changes of folders and of the files in them, but not of files in their
	// subfolders. The first message means that the agent watches the folders. Two messages are at
	// least 500 ms apart, and the first change after a pause is sent at once. A folder that does not
	// exist is reported when it is created. WatchFolders fails with RESOURCE_EXHAUSTED if too many
	// calls watch folders.
	WatchFolders(context.Context, *connect.Request[v1.WatchFoldersRequest]) (*connect.ServerStreamForClient[v1.WatchFoldersResponse], error)
	// Ready waits until a file exists, a port accepts connections or a URL responds. It fails with
	// DEADLINE_EXCEEDED at the time limit.
	Ready(context.Context, *connect.Request[v1.ReadyRequest]) (*connect.Response[v1.ReadyResponse], error)
	// Mount mounts the volume, and completes or undoes the changes that a crash interrupted. If the
	// machine was started without a root, Mount also mounts the root. Before Mount, calls that need
	// these file systems fail with FAILED_PRECONDITION. Mount skips a file system that is already
	// mounted. It fails with FAILED_PRECONDITION if the disk does not exist.
	Mount(context.Context, *connect.Request[v1.MountRequest]) (*connect.Response[v1.MountResponse], error)
	// Quiesce prepares the machine to end without data loss. It kills all processes. Then it flushes
	// the root and the volume, and unmounts them or makes them read-only. The agent then refuses
	// calls that need them. After 20 s, Quiesce fails with DEADLINE_EXCEEDED. It is idempotent.
	Quiesce(context.Context, *connect.Request[v1.QuiesceRequest]) (*connect.Response[v1.QuiesceResponse], error)
	// Freeze flushes file systems, then blocks writes to them. Writes continue after Thaw, at the
	// time limit or at the end of this session. If a file system is already frozen, Freeze thaws it
	// before it flushes it. If the field processes is set and the machine has its own kernel, Freeze
	// also stops the processes. They continue after Thaw, at the time limit or at the next Renew
	// without held.
	Freeze(context.Context, *connect.Request[v1.FreezeRequest]) (*connect.Response[v1.FreezeResponse], error)
	// Thaw allows writes again. It is idempotent.
	Thaw(context.Context, *connect.Request[v1.ThawRequest]) (*connect.Response[v1.ThawResponse], error)
	// Flush writes all data of the volume to disk. If root is set, it also writes the data of the
	// root.
	Flush(context.Context, *connect.Request[v1.FlushRequest]) (*connect.Response[v1.FlushResponse], error)
}

// NewAgentServiceClient constructs a client for the agent.v1.AgentService service. By default, it
// uses the Connect protocol with the binary Protobuf Codec, asks for gzipped responses, and sends
// uncompressed requests. To use the gRPC or gRPC-Web protocols, supply the connect.WithGRPC() or
// connect.WithGRPCWeb() options.
//
// The URL supplied here should be the base URL for the Connect or gRPC server (for example,
// http://api.acme.com or https://acme.com/grpc).
func NewAgentServiceClient(httpClient connect.HTTPClient, baseURL string, opts ...connect.ClientOption) AgentServiceClient {
	baseURL = strings.TrimRight(baseURL, "/")
	agentServiceMethods := v1.File_agent_v1_agent_proto.Services().ByName("AgentService").Methods()
	return &agentServiceClient{
		status: connect.NewClient[v1.StatusRequest, v1.StatusResponse](
			httpClient,
			baseURL+AgentServiceStatusProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Status")),
			connect.WithClientOptions(opts...),
		),
		renew: connect.NewClient[v1.RenewRequest, v1.RenewResponse](
			httpClient,
			baseURL+AgentServiceRenewProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Renew")),
			connect.WithClientOptions(opts...),
		),
		exec: connect.NewClient[v1.ExecRequest, v1.ExecEvent](
			httpClient,
			baseURL+AgentServiceExecProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Exec")),
			connect.WithClientOptions(opts...),
		),
		follow: connect.NewClient[v1.FollowRequest, v1.ExecEvent](
			httpClient,
			baseURL+AgentServiceFollowProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Follow")),
			connect.WithClientOptions(opts...),
		),
		ack: connect.NewClient[v1.AckRequest, v1.AckResponse](
			httpClient,
			baseURL+AgentServiceAckProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Ack")),
			connect.WithClientOptions(opts...),
		),
		input: connect.NewClient[v1.InputRequest, v1.InputResponse](
			httpClient,
			baseURL+AgentServiceInputProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Input")),
			connect.WithClientOptions(opts...),
		),
		signal: connect.NewClient[v1.SignalRequest, v1.SignalResponse](
			httpClient,
			baseURL+AgentServiceSignalProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Signal")),
			connect.WithClientOptions(opts...),
		),
		resize: connect.NewClient[v1.ResizeRequest, v1.ResizeResponse](
			httpClient,
			baseURL+AgentServiceResizeProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Resize")),
			connect.WithClientOptions(opts...),
		),
		release: connect.NewClient[v1.ReleaseRequest, v1.ReleaseResponse](
			httpClient,
			baseURL+AgentServiceReleaseProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Release")),
			connect.WithClientOptions(opts...),
		),
		stat: connect.NewClient[v1.StatRequest, v1.StatResponse](
			httpClient,
			baseURL+AgentServiceStatProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Stat")),
			connect.WithClientOptions(opts...),
		),
		watchFolders: connect.NewClient[v1.WatchFoldersRequest, v1.WatchFoldersResponse](
			httpClient,
			baseURL+AgentServiceWatchFoldersProcedure,
			connect.WithSchema(agentServiceMethods.ByName("WatchFolders")),
			connect.WithClientOptions(opts...),
		),
		ready: connect.NewClient[v1.ReadyRequest, v1.ReadyResponse](
			httpClient,
			baseURL+AgentServiceReadyProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Ready")),
			connect.WithClientOptions(opts...),
		),
		mount: connect.NewClient[v1.MountRequest, v1.MountResponse](
			httpClient,
			baseURL+AgentServiceMountProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Mount")),
			connect.WithClientOptions(opts...),
		),
		quiesce: connect.NewClient[v1.QuiesceRequest, v1.QuiesceResponse](
			httpClient,
			baseURL+AgentServiceQuiesceProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Quiesce")),
			connect.WithClientOptions(opts...),
		),
		freeze: connect.NewClient[v1.FreezeRequest, v1.FreezeResponse](
			httpClient,
			baseURL+AgentServiceFreezeProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Freeze")),
			connect.WithClientOptions(opts...),
		),
		thaw: connect.NewClient[v1.ThawRequest, v1.ThawResponse](
			httpClient,
			baseURL+AgentServiceThawProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Thaw")),
			connect.WithClientOptions(opts...),
		),
		flush: connect.NewClient[v1.FlushRequest, v1.FlushResponse](
			httpClient,
			baseURL+AgentServiceFlushProcedure,
			connect.WithSchema(agentServiceMethods.ByName("Flush")),
			connect.WithClientOptions(opts...),
		),
	}
}

// agentServiceClient implements AgentServiceClient.
type agentServiceClient struct {
	status       *connect.Client[v1.StatusRequest, v1.StatusResponse]
	renew        *connect.Client[v1.RenewRequest, v1.RenewResponse]
	exec         *connect.Client[v1.ExecRequest, v1.ExecEvent]
	follow       *connect.Client[v1.FollowRequest, v1.ExecEvent]
	ack          *connect.Client[v1.AckRequest, v1.AckResponse]
	input        *connect.Client[v1.InputRequest, v1.InputResponse]
	signal       *connect.Client[v1.SignalRequest, v1.SignalResponse]
	resize       *connect.Client[v1.ResizeRequest, v1.ResizeResponse]
	release      *connect.Client[v1.ReleaseRequest, v1.ReleaseResponse]
	stat         *connect.Client[v1.StatRequest, v1.StatResponse]
	watchFolders *connect.Client[v1.WatchFoldersRequest, v1.WatchFoldersResponse]
	ready        *connect.Client[v1.ReadyRequest, v1.ReadyResponse]
	mount        *connect.Client[v1.MountRequest, v1.MountResponse]
	quiesce      *connect.Client[v1.QuiesceRequest, v1.QuiesceResponse]
	freeze       *connect.Client[v1.FreezeRequest, v1.FreezeResponse]
	thaw         *connect.Client[v1.ThawRequest, v1.ThawResponse]
	flush        *connect.Client[v1.FlushRequest, v1.FlushResponse]
}

// Status calls agent.v1.AgentService.Status.
func (c *agentServiceClient) Status(ctx context.Context, req *connect.Request[v1.StatusRequest]) (*connect.Response[v1.StatusResponse], error) {
	return c.status.CallUnary(ctx, req)
}

// Renew calls agent.v1.AgentService.Renew.
func (c *agentServiceClient) Renew(ctx context.Context, req *connect.Request[v1.RenewRequest]) (*connect.Response[v1.RenewResponse], error) {
	return c.renew.CallUnary(ctx, req)
}

// Exec calls agent.v1.AgentService.Exec.
func (c *agentServiceClient) Exec(ctx context.Context, req *connect.Request[v1.ExecRequest]) (*connect.ServerStreamForClient[v1.ExecEvent], error) {
	return c.exec.CallServerStream(ctx, req)
}

// Follow calls agent.v1.AgentService.Follow.
func (c *agentServiceClient) Follow(ctx context.Context, req *connect.Request[v1.FollowRequest]) (*connect.ServerStreamForClient[v1.ExecEvent], error) {
	return c.follow.CallServerStream(ctx, req)
}

// Ack calls agent.v1.AgentService.Ack.
func (c *agentServiceClient) Ack(ctx context.Context, req *connect.Request[v1.AckRequest]) (*connect.Response[v1.AckResponse], error) {
	return c.ack.CallUnary(ctx, req)
}

// Input calls agent.v1.AgentService.Input.
func (c *agentServiceClient) Input(ctx context.Context, req *connect.Request[v1.InputRequest]) (*connect.Response[v1.InputResponse], error) {
	return c.input.CallUnary(ctx, req)
}

// Signal calls agent.v1.AgentService.Signal.
func (c *agentServiceClient) Signal(ctx context.Context, req *connect.Request[v1.SignalRequest]) (*connect.Response[v1.SignalResponse], error) {
	return c.signal.CallUnary(ctx, req)
}

// Resize calls agent.v1.AgentService.Resize.
func (c *agentServiceClient) Resize(ctx context.Context, req *connect.Request[v1.ResizeRequest]) (*connect.Response[v1.ResizeResponse], error) {
	return c.resize.CallUnary(ctx, req)
}

// Release calls agent.v1.AgentService.Release.
func (c *agentServiceClient) Release(ctx context.Context, req *connect.Request[v1.ReleaseRequest]) (*connect.Response[v1.ReleaseResponse], error) {
	return c.release.CallUnary(ctx, req)
}

// Stat calls agent.v1.AgentService.Stat.
func (c *agentServiceClient) Stat(ctx context.Context, req *connect.Request[v1.StatRequest]) (*connect.Response[v1.StatResponse], error) {
	return c.stat.CallUnary(ctx, req)
}

// WatchFolders calls agent.v1.AgentService.WatchFolders.
func (c *agentServiceClient) WatchFolders(ctx context.Context, req *connect.Request[v1.WatchFoldersRequest]) (*connect.ServerStreamForClient[v1.WatchFoldersResponse], error) {
	return c.watchFolders.CallServerStream(ctx, req)
}

// Ready calls agent.v1.AgentService.Ready.
func (c *agentServiceClient) Ready(ctx context.Context, req *connect.Request[v1.ReadyRequest]) (*connect.Response[v1.ReadyResponse], error) {
	return c.ready.CallUnary(ctx, req)
}

// Mount calls agent.v1.AgentService.Mount.
func (c *agentServiceClient) Mount(ctx context.Context, req *connect.Request[v1.MountRequest]) (*connect.Response[v1.MountResponse], error) {
	return c.mount.CallUnary(ctx, req)
}

// Quiesce calls agent.v1.AgentService.Quiesce.
func (c *agentServiceClient) Quiesce(ctx context.Context, req *connect.Request[v1.QuiesceRequest]) (*connect.Response[v1.QuiesceResponse], error) {
	return c.quiesce.CallUnary(ctx, req)
}

// Freeze calls agent.v1.AgentService.Freeze.
func (c *agentServiceClient) Freeze(ctx context.Context, req *connect.Request[v1.FreezeRequest]) (*connect.Response[v1.FreezeResponse], error) {
	return c.freeze.CallUnary(ctx, req)
}

// Thaw calls agent.v1.AgentService.Thaw.
func (c *agentServiceClient) Thaw(ctx context.Context, req *connect.Request[v1.ThawRequest]) (*connect.Response[v1.ThawResponse], error) {
	return c.thaw.CallUnary(ctx, req)
}

// Flush calls agent.v1.AgentService.Flush.
func (c *agentServiceClient) Flush(ctx context.Context, req *connect.Request[v1.FlushRequest]) (*connect.Response[v1.FlushResponse], error) {
	return c.flush.CallUnary(ctx, req)
}

// AgentServiceHandler is an implementation of the agent.v1.AgentService service.
type AgentServiceHandler interface {
	// Status describes the agent. It also works before Renew.
	Status(context.Context, *connect.Request[v1.StatusRequest]) (*connect.Response[v1.StatusResponse], error)
	// Renew sets the clock, random pool, machine-id, host name and network of a machine after a start
	// or restore. After each start or restore, all calls except Status fail with FAILED_PRECONDITION
	// until Renew succeeds. It is idempotent.
	Renew(context.Context, *connect.Request[v1.RenewRequest]) (*connect.Response[v1.RenewResponse], error)
	// Exec starts a process and streams its events until the process ends. The caller chooses
	// exec_id. A second Exec with the same exec_id fails with ALREADY_EXISTS and starts nothing. The
	// process continues if the stream breaks. The caller can then call Follow to learn whether the
	// process was started.
	Exec(context.Context, *connect.Request[v1.ExecRequest], *connect.ServerStream[v1.ExecEvent]) error
	// Follow continues the stream of a process: it sends started, the output after the given offsets,
	// and exit. It fails with NOT_FOUND for an unknown exec_id.
	Follow(context.Context, *connect.Request[v1.FollowRequest], *connect.ServerStream[v1.ExecEvent]) error
	// Ack acknowledges all output before the given offsets. If the ring buffer of a process is full
	// of unacknowledged output, the process blocks when it writes more.
	Ack(context.Context, *connect.Request[v1.AckRequest]) (*connect.Response[v1.AckResponse], error)
	// Input writes to the standard input. It is idempotent, because it skips bytes before the
	// accepted offset. It returns when the bytes are in the pipe or PTY, so a process that reads
	// slowly slows down the caller. If the process has closed its input, the response has closed set.
	// A request without data and eof writes nothing. It does not wait for other requests, and only
	// line_limit is set in its response.
	Input(context.Context, *connect.Request[v1.InputRequest]) (*connect.Response[v1.InputResponse], error)
	// Signal sends a signal to the process group, or kills all processes that the exec started.
	Signal(context.Context, *connect.Request[v1.SignalRequest]) (*connect.Response[v1.SignalResponse], error)
	// Resize sets the size of the PTY. It fails with FAILED_PRECONDITION if there is none.
	Resize(context.Context, *connect.Request[v1.ResizeRequest]) (*connect.Response[v1.ResizeResponse], error)
	// Release deletes a process with its output. If the process is still running, it is deleted when
	// it ends. Its ID can't be used again. Release is idempotent.
	Release(context.Context, *connect.Request[v1.ReleaseRequest]) (*connect.Response[v1.ReleaseResponse], error)
	// Stat describes a path. It does not follow a link at the end of the path.
	Stat(context.Context, *connect.Request[v1.StatRequest]) (*connect.Response[v1.StatResponse], error)
	// WatchFolders reports changes of folders and of the files in them, but not of files in their
	// subfolders. The first message means that the agent watches the folders. Two messages are at
	// least 500 ms apart, and the first change after a pause is sent at once. A folder that does not
	// exist is reported when it is created. WatchFolders fails with RESOURCE_EXHAUSTED if too many
	// calls watch folders.
	WatchFolders(context.Context, *connect.Request[v1.WatchFoldersRequest], *connect.ServerStream[v1.WatchFoldersResponse]) error
	// Ready waits until a file exists, a port accepts connections or a URL responds. It fails with
	// DEADLINE_EXCEEDED at the time limit.
	Ready(context.Context, *connect.Request[v1.ReadyRequest]) (*connect.Response[v1.ReadyResponse], error)
	// Mount mounts the volume, and completes or undoes the changes that a crash interrupted. If the
	// machine was started without a root, Mount also mounts the root. Before Mount, calls that need
	// these file systems fail with FAILED_PRECONDITION. Mount skips a file system that is already
	// mounted. It fails with FAILED_PRECONDITION if the disk does not exist.
	Mount(context.Context, *connect.Request[v1.MountRequest]) (*connect.Response[v1.MountResponse], error)
	// Quiesce prepares the machine to end without data loss. It kills all processes. Then it flushes
	// the root and the volume, and unmounts them or makes them read-only. The agent then refuses
	// calls that need them. After 20 s, Quiesce fails with DEADLINE_EXCEEDED. It is idempotent.
	Quiesce(context.Context, *connect.Request[v1.QuiesceRequest]) (*connect.Response[v1.QuiesceResponse], error)
	// Freeze flushes file systems, then blocks writes to them. Writes continue after Thaw, at the
	// time limit or at the end of this session. If a file system is already frozen, Freeze thaws it
	// before it flushes it. If the field processes is set and the machine has its own kernel, Freeze
	// also stops the processes. They continue after Thaw, at the time limit or at the next Renew
	// without held.
	Freeze(context.Context, *connect.Request[v1.FreezeRequest]) (*connect.Response[v1.FreezeResponse], error)
	// Thaw allows writes again. It is idempotent.
	Thaw(context.Context, *connect.Request[v1.ThawRequest]) (*connect.Response[v1.ThawResponse], error)
	// Flush writes all data of the volume to disk. If root is set, it also writes the data of the
	// root.
	Flush(context.Context, *connect.Request[v1.FlushRequest]) (*connect.Response[v1.FlushResponse], error)
}

// NewAgentServiceHandler builds an HTTP handler from the service implementation. It returns the
// path on which to mount the handler and the handler itself.
//
// By default, handlers support the Connect, gRPC, and gRPC-Web protocols with the binary Protobuf
// and JSON codecs. They also support gzip compression.
func NewAgentServiceHandler(svc AgentServiceHandler, opts ...connect.HandlerOption) (string, http.Handler) {
	agentServiceMethods := v1.File_agent_v1_agent_proto.Services().ByName("AgentService").Methods()
	agentServiceStatusHandler := connect.NewUnaryHandler(
		AgentServiceStatusProcedure,
		svc.Status,
		connect.WithSchema(agentServiceMethods.ByName("Status")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceRenewHandler := connect.NewUnaryHandler(
		AgentServiceRenewProcedure,
		svc.Renew,
		connect.WithSchema(agentServiceMethods.ByName("Renew")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceExecHandler := connect.NewServerStreamHandler(
		AgentServiceExecProcedure,
		svc.Exec,
		connect.WithSchema(agentServiceMethods.ByName("Exec")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceFollowHandler := connect.NewServerStreamHandler(
		AgentServiceFollowProcedure,
		svc.Follow,
		connect.WithSchema(agentServiceMethods.ByName("Follow")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceAckHandler := connect.NewUnaryHandler(
		AgentServiceAckProcedure,
		svc.Ack,
		connect.WithSchema(agentServiceMethods.ByName("Ack")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceInputHandler := connect.NewUnaryHandler(
		AgentServiceInputProcedure,
		svc.Input,
		connect.WithSchema(agentServiceMethods.ByName("Input")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceSignalHandler := connect.NewUnaryHandler(
		AgentServiceSignalProcedure,
		svc.Signal,
		connect.WithSchema(agentServiceMethods.ByName("Signal")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceResizeHandler := connect.NewUnaryHandler(
		AgentServiceResizeProcedure,
		svc.Resize,
		connect.WithSchema(agentServiceMethods.ByName("Resize")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceReleaseHandler := connect.NewUnaryHandler(
		AgentServiceReleaseProcedure,
		svc.Release,
		connect.WithSchema(agentServiceMethods.ByName("Release")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceStatHandler := connect.NewUnaryHandler(
		AgentServiceStatProcedure,
		svc.Stat,
		connect.WithSchema(agentServiceMethods.ByName("Stat")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceWatchFoldersHandler := connect.NewServerStreamHandler(
		AgentServiceWatchFoldersProcedure,
		svc.WatchFolders,
		connect.WithSchema(agentServiceMethods.ByName("WatchFolders")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceReadyHandler := connect.NewUnaryHandler(
		AgentServiceReadyProcedure,
		svc.Ready,
		connect.WithSchema(agentServiceMethods.ByName("Ready")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceMountHandler := connect.NewUnaryHandler(
		AgentServiceMountProcedure,
		svc.Mount,
		connect.WithSchema(agentServiceMethods.ByName("Mount")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceQuiesceHandler := connect.NewUnaryHandler(
		AgentServiceQuiesceProcedure,
		svc.Quiesce,
		connect.WithSchema(agentServiceMethods.ByName("Quiesce")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceFreezeHandler := connect.NewUnaryHandler(
		AgentServiceFreezeProcedure,
		svc.Freeze,
		connect.WithSchema(agentServiceMethods.ByName("Freeze")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceThawHandler := connect.NewUnaryHandler(
		AgentServiceThawProcedure,
		svc.Thaw,
		connect.WithSchema(agentServiceMethods.ByName("Thaw")),
		connect.WithHandlerOptions(opts...),
	)
	agentServiceFlushHandler := connect.NewUnaryHandler(
		AgentServiceFlushProcedure,
		svc.Flush,
		connect.WithSchema(agentServiceMethods.ByName("Flush")),
		connect.WithHandlerOptions(opts...),
	)
	return "/agent.v1.AgentService/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case AgentServiceStatusProcedure:
			agentServiceStatusHandler.ServeHTTP(w, r)
		case AgentServiceRenewProcedure:
			agentServiceRenewHandler.ServeHTTP(w, r)
		case AgentServiceExecProcedure:
			agentServiceExecHandler.ServeHTTP(w, r)
		case AgentServiceFollowProcedure:
			agentServiceFollowHandler.ServeHTTP(w, r)
		case AgentServiceAckProcedure:
			agentServiceAckHandler.ServeHTTP(w, r)
		case AgentServiceInputProcedure:
			agentServiceInputHandler.ServeHTTP(w, r)
		case AgentServiceSignalProcedure:
			agentServiceSignalHandler.ServeHTTP(w, r)
		case AgentServiceResizeProcedure:
			agentServiceResizeHandler.ServeHTTP(w, r)
		case AgentServiceReleaseProcedure:
			agentServiceReleaseHandler.ServeHTTP(w, r)
		case AgentServiceStatProcedure:
			agentServiceStatHandler.ServeHTTP(w, r)
		case AgentServiceWatchFoldersProcedure:
			agentServiceWatchFoldersHandler.ServeHTTP(w, r)
		case AgentServiceReadyProcedure:
			agentServiceReadyHandler.ServeHTTP(w, r)
		case AgentServiceMountProcedure:
			agentServiceMountHandler.ServeHTTP(w, r)
		case AgentServiceQuiesceProcedure:
			agentServiceQuiesceHandler.ServeHTTP(w, r)
		case AgentServiceFreezeProcedure:
			agentServiceFreezeHandler.ServeHTTP(w, r)
		case AgentServiceThawProcedure:
			agentServiceThawHandler.ServeHTTP(w, r)
		case AgentServiceFlushProcedure:
			agentServiceFlushHandler.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// UnimplementedAgentServiceHandler returns CodeUnimplemented from all methods.
type UnimplementedAgentServiceHandler struct{}

func (UnimplementedAgentServiceHandler) Status(context.Context, *connect.Request[v1.StatusRequest]) (*connect.Response[v1.StatusResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Status is not implemented"))
}

func (UnimplementedAgentServiceHandler) Renew(context.Context, *connect.Request[v1.RenewRequest]) (*connect.Response[v1.RenewResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Renew is not implemented"))
}

func (UnimplementedAgentServiceHandler) Exec(context.Context, *connect.Request[v1.ExecRequest], *connect.ServerStream[v1.ExecEvent]) error {
	return connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Exec is not implemented"))
}

func (UnimplementedAgentServiceHandler) Follow(context.Context, *connect.Request[v1.FollowRequest], *connect.ServerStream[v1.ExecEvent]) error {
	return connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Follow is not implemented"))
}

func (UnimplementedAgentServiceHandler) Ack(context.Context, *connect.Request[v1.AckRequest]) (*connect.Response[v1.AckResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Ack is not implemented"))
}

func (UnimplementedAgentServiceHandler) Input(context.Context, *connect.Request[v1.InputRequest]) (*connect.Response[v1.InputResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Input is not implemented"))
}

func (UnimplementedAgentServiceHandler) Signal(context.Context, *connect.Request[v1.SignalRequest]) (*connect.Response[v1.SignalResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Signal is not implemented"))
}

func (UnimplementedAgentServiceHandler) Resize(context.Context, *connect.Request[v1.ResizeRequest]) (*connect.Response[v1.ResizeResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Resize is not implemented"))
}

func (UnimplementedAgentServiceHandler) Release(context.Context, *connect.Request[v1.ReleaseRequest]) (*connect.Response[v1.ReleaseResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Release is not implemented"))
}

func (UnimplementedAgentServiceHandler) Stat(context.Context, *connect.Request[v1.StatRequest]) (*connect.Response[v1.StatResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Stat is not implemented"))
}

func (UnimplementedAgentServiceHandler) WatchFolders(context.Context, *connect.Request[v1.WatchFoldersRequest], *connect.ServerStream[v1.WatchFoldersResponse]) error {
	return connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.WatchFolders is not implemented"))
}

func (UnimplementedAgentServiceHandler) Ready(context.Context, *connect.Request[v1.ReadyRequest]) (*connect.Response[v1.ReadyResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Ready is not implemented"))
}

func (UnimplementedAgentServiceHandler) Mount(context.Context, *connect.Request[v1.MountRequest]) (*connect.Response[v1.MountResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Mount is not implemented"))
}

func (UnimplementedAgentServiceHandler) Quiesce(context.Context, *connect.Request[v1.QuiesceRequest]) (*connect.Response[v1.QuiesceResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Quiesce is not implemented"))
}

func (UnimplementedAgentServiceHandler) Freeze(context.Context, *connect.Request[v1.FreezeRequest]) (*connect.Response[v1.FreezeResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Freeze is not implemented"))
}

func (UnimplementedAgentServiceHandler) Thaw(context.Context, *connect.Request[v1.ThawRequest]) (*connect.Response[v1.ThawResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Thaw is not implemented"))
}

func (UnimplementedAgentServiceHandler) Flush(context.Context, *connect.Request[v1.FlushRequest]) (*connect.Response[v1.FlushResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("agent.v1.AgentService.Flush is not implemented"))
}
