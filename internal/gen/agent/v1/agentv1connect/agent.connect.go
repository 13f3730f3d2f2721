// The protocol between a machine's supervisor and the agent inside the machine.
//
// It is served as Connect over HTTP/2 on one byte stream (see internal/agent/link). Both ends are always built from the same tree, so there is
// no compatibility promise between versions: a template that holds another agent is rebuilt.
//
// The content of files travels beside this service, as plain HTTP/2 bodies on the same stream, or through memory that both ends share:
//
//   GET /file?path=P&offset=N&limit=N             the content of a regular file; limit 0: to its end
//   PUT /file?path=P&mode=M&parents=B&size=N      replaces a file: it is written beside its place, flushed, and renamed when the body was whole.
//                                                 mode 0 (decimal): keep that of an existing file, 0644 for a new one; parents: make missing folders;
//                                                 size -1: the body ends where it ends
//   DELETE /file?path=P                           removes what is there with all below it, and follows no link
//   PUT /folder?path=P                            makes a folder, and those above it that are missing
//   GET /list?path=P&depth=N                      what is there, as /volume/list has it, and what is in it to a depth; 0: that alone, and a link as such
//
// Their errors are HTTP statuses: 400 unusable request, 403 denied, 404 nothing there, 409 not a regular file, 412 not renewed or not mounted, 507 no space.
//
// With window=1 the content goes through the window (internal/agent/window), one call at a time, where the answer has the header Window. A GET whose answer
// has not is answered as without. A PUT is refused then with 423, before it has taken anything; its end is told in the trailers Status and, if that is not
// 200, Error (query-escaped).
//
// The volume is what outlives the machine (see Mount). It is reached in the same way, with the same statuses:
//
//   GET /volume/file?path=P&offset=N&limit=N          as /file
//   PUT /volume/file?path=P&mode=M&parents=B&size=N   as /file. A link in the file's place is not followed and not replaced: 409
//   GET /volume/list?path=P&recursive=B               what is in a folder
//   GET /volume/list?path=P&recursive=B&alone=1       the entry at the path alone. No link is followed, on the way or at the end
//   GET /volume/tree?path=P                           a folder with all below it, or anything else, as a tar archive
//   PUT /volume/change                                a tar archive of operations that are done all or not at all
//
// A path is relative to what is seen at /workspace, whose own path is empty. It has no empty part, no "." and no "..", is at most 4096 bytes, and may hold any
// byte but NUL. Links on the way and, for reading, at the end of it are followed beneath /workspace; one that leads out, as every absolute one does, is 403.
// The bodies of list and tree are made as they are sent: the trailer Status says whether they are whole, with Error (query-escaped) where they are not. A body
// that ends without Status 200 was cut.
//
// A list is a record for the path itself, and one for each thing below it, or only for what is directly in it: a folder before what it holds, the names of one
// folder in the order of their bytes. What vanishes meanwhile is left out. Numbers are varints (those of protobuf; signed ones zigzag), lengths are in bytes:
//
//   kind       1 file, 2 folder, 3 symbolic link, 4 anything else; 0 ends the list, and is followed by the count of records
//   shared     how many bytes of the path are those of the record before
//   rest       the rest of the path, relative to the path that was asked for: length, bytes
//   mode       permission, set-id and sticky bits
//   size
//   mtime      nanoseconds since 1970, signed, less that of the record before
//   ctime      the same, less this mtime
//   inode      signed, less that of the record before
//   uid, gid, nlink
//   target     of a symbolic link only: length, bytes; at most 4096
//
// A tree is a PAX archive whose names begin with the last part of the path, or with "." for the empty one. Regular files of several names are hard links after
// the first. Sockets, pipes and devices are left out. The trailer Counts has three numbers: entries, what was left out, and files that were written to while
// they were read; those are padded with zeroes or cut to the size that they had.
//
// The entries of a change are taken in their order: files, folders, symbolic links and hard links (to another path in the volume), named by their path. PAX
// records say more:
//
//   PYRO.op       absent or "put": the entry replaces what file or link is there. A folder that is there keeps what is in it. Missing parents are made, 0755
//                 "delete": a file, link or empty folder goes. "mode": only the permission, set-id and sticky bits change
//   PYRO.expect   absent: anything may be there. "absent": nothing. Else what must have been there before the change, as a list tells it:
//                 inode:size:mtime:ctime:mode, decimal but for the octal mode
//   PYRO.keep     "1": a file keeps the mode and the owner of the one it replaces; a folder that is there its mode
//
// What is new belongs to root. A time of 0 is that of the change. Nothing is changed unless all can be: 409 with the header or trailer Path (query-escaped) where
// something else is there than may be, 507 where there is no space. Once it is answered it is on the disk; after a crash at any time before, Mount makes it
// whole or undoes it. The trailer Counts has four numbers: entries that were not there before, that were, that are deleted, and bytes of content. At most
// 1,000,000 entries.
//
// Everything the agent sends is hostile to the supervisor: every field has a bound, stated here and enforced by the client.

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
	// Status tells what the agent is. It is the only call, with Renew, that answers before the machine is renewed.
	Status(context.Context, *connect.Request[v1.StatusRequest]) (*connect.Response[v1.StatusResponse], error)
	// Renew gives a freshly started or restored machine its own clock, random pool, machine-id, host name and network.
	// Until it has succeeded once since the last start or restore, every call but Status fails with FAILED_PRECONDITION. Idempotent.
	Renew(context.Context, *connect.Request[v1.RenewRequest]) (*connect.Response[v1.RenewResponse], error)
	// Exec starts a process and follows it to its end.
	// The caller picks exec_id; a second Exec with a known exec_id fails with ALREADY_EXISTS and starts nothing, so that after a cut stream
	// Follow tells whether the process was ever started. Cutting the stream does not end the process.
	Exec(context.Context, *connect.Request[v1.ExecRequest]) (*connect.ServerStreamForClient[v1.ExecEvent], error)
	// Follow goes on with a process from absolute offsets: started, the output from there on, and exit. NOT_FOUND for an unknown exec_id.
	Follow(context.Context, *connect.Request[v1.FollowRequest]) (*connect.ServerStreamForClient[v1.ExecEvent], error)
	// Ack says up to where output has safely arrived. Under ON_FULL_BLOCK the process waits when a whole ring is not acknowledged.
	Ack(context.Context, *connect.Request[v1.AckRequest]) (*connect.Response[v1.AckResponse], error)
	// Input writes to the standard input. Idempotent by offset: bytes below what was already accepted are skipped. It returns when the
	// bytes are in the pipe (or PTY), so it is the back-pressure too. After the process closed its input it answers closed.
	Input(context.Context, *connect.Request[v1.InputRequest]) (*connect.Response[v1.InputResponse], error)
	// Signal sends a signal to the process group, or kills all that the exec ever started.
	Signal(context.Context, *connect.Request[v1.SignalRequest]) (*connect.Response[v1.SignalResponse], error)
	// Resize sets the size of the PTY. FAILED_PRECONDITION without one.
	Resize(context.Context, *connect.Request[v1.ResizeRequest]) (*connect.Response[v1.ResizeResponse], error)
	// Release forgets a process with its output: one that still runs as soon as it has ended. Its id is never taken again. Idempotent.
	Release(context.Context, *connect.Request[v1.ReleaseRequest]) (*connect.Response[v1.ReleaseResponse], error)
	// Stat describes one path without following a final link.
	Stat(context.Context, *connect.Request[v1.StatRequest]) (*connect.Response[v1.StatResponse], error)
	// Ready waits until something is there: a file, or whoever answers at an address. DEADLINE_EXCEEDED when the limit is over.
	Ready(context.Context, *connect.Request[v1.ReadyRequest]) (*connect.Response[v1.ReadyResponse], error)
	// Mount mounts the volume, and with it completes or undoes the changes that a crash cut short; and the root, where the machine was started without one:
	// until then every call that needs it fails with FAILED_PRECONDITION. What is mounted already stays as it is. FAILED_PRECONDITION: there is no such disk.
	Mount(context.Context, *connect.Request[v1.MountRequest]) (*connect.Response[v1.MountResponse], error)
	// Quiesce kills all processes, refuses everything that needs the root or the volume from then on, flushes both, and unmounts them or makes them read-only:
	// nothing is lost with the end of the machine. It takes at most 20 s; DEADLINE_EXCEEDED: it could not be done. Idempotent.
	Quiesce(context.Context, *connect.Request[v1.QuiesceRequest]) (*connect.Response[v1.QuiesceResponse], error)
	// Freeze flushes file systems and stops all writing to them, until Thaw, the end of the limit or of this session. One that is frozen already is thawed first. With
	// processes those stand still, too, until Thaw, the end of the limit or the next Renew, unless that says otherwise, where the machine has a kernel of its own.
	Freeze(context.Context, *connect.Request[v1.FreezeRequest]) (*connect.Response[v1.FreezeResponse], error)
	// Thaw lets writing go on. Idempotent.
	Thaw(context.Context, *connect.Request[v1.ThawRequest]) (*connect.Response[v1.ThawResponse], error)
	// Flush has everything that was written to the volume, and to the root where that is asked for, on the disk.
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
	status  *connect.Client[v1.StatusRequest, v1.StatusResponse]
	renew   *connect.Client[v1.RenewRequest, v1.RenewResponse]
	exec    *connect.Client[v1.ExecRequest, v1.ExecEvent]
	follow  *connect.Client[v1.FollowRequest, v1.ExecEvent]
	ack     *connect.Client[v1.AckRequest, v1.AckResponse]
	input   *connect.Client[v1.InputRequest, v1.InputResponse]
	signal  *connect.Client[v1.SignalRequest, v1.SignalResponse]
	resize  *connect.Client[v1.ResizeRequest, v1.ResizeResponse]
	release *connect.Client[v1.ReleaseRequest, v1.ReleaseResponse]
	stat    *connect.Client[v1.StatRequest, v1.StatResponse]
	ready   *connect.Client[v1.ReadyRequest, v1.ReadyResponse]
	mount   *connect.Client[v1.MountRequest, v1.MountResponse]
	quiesce *connect.Client[v1.QuiesceRequest, v1.QuiesceResponse]
	freeze  *connect.Client[v1.FreezeRequest, v1.FreezeResponse]
	thaw    *connect.Client[v1.ThawRequest, v1.ThawResponse]
	flush   *connect.Client[v1.FlushRequest, v1.FlushResponse]
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
	// Status tells what the agent is. It is the only call, with Renew, that answers before the machine is renewed.
	Status(context.Context, *connect.Request[v1.StatusRequest]) (*connect.Response[v1.StatusResponse], error)
	// Renew gives a freshly started or restored machine its own clock, random pool, machine-id, host name and network.
	// Until it has succeeded once since the last start or restore, every call but Status fails with FAILED_PRECONDITION. Idempotent.
	Renew(context.Context, *connect.Request[v1.RenewRequest]) (*connect.Response[v1.RenewResponse], error)
	// Exec starts a process and follows it to its end.
	// The caller picks exec_id; a second Exec with a known exec_id fails with ALREADY_EXISTS and starts nothing, so that after a cut stream
	// Follow tells whether the process was ever started. Cutting the stream does not end the process.
	Exec(context.Context, *connect.Request[v1.ExecRequest], *connect.ServerStream[v1.ExecEvent]) error
	// Follow goes on with a process from absolute offsets: started, the output from there on, and exit. NOT_FOUND for an unknown exec_id.
	Follow(context.Context, *connect.Request[v1.FollowRequest], *connect.ServerStream[v1.ExecEvent]) error
	// Ack says up to where output has safely arrived. Under ON_FULL_BLOCK the process waits when a whole ring is not acknowledged.
	Ack(context.Context, *connect.Request[v1.AckRequest]) (*connect.Response[v1.AckResponse], error)
	// Input writes to the standard input. Idempotent by offset: bytes below what was already accepted are skipped. It returns when the
	// bytes are in the pipe (or PTY), so it is the back-pressure too. After the process closed its input it answers closed.
	Input(context.Context, *connect.Request[v1.InputRequest]) (*connect.Response[v1.InputResponse], error)
	// Signal sends a signal to the process group, or kills all that the exec ever started.
	Signal(context.Context, *connect.Request[v1.SignalRequest]) (*connect.Response[v1.SignalResponse], error)
	// Resize sets the size of the PTY. FAILED_PRECONDITION without one.
	Resize(context.Context, *connect.Request[v1.ResizeRequest]) (*connect.Response[v1.ResizeResponse], error)
	// Release forgets a process with its output: one that still runs as soon as it has ended. Its id is never taken again. Idempotent.
	Release(context.Context, *connect.Request[v1.ReleaseRequest]) (*connect.Response[v1.ReleaseResponse], error)
	// Stat describes one path without following a final link.
	Stat(context.Context, *connect.Request[v1.StatRequest]) (*connect.Response[v1.StatResponse], error)
	// Ready waits until something is there: a file, or whoever answers at an address. DEADLINE_EXCEEDED when the limit is over.
	Ready(context.Context, *connect.Request[v1.ReadyRequest]) (*connect.Response[v1.ReadyResponse], error)
	// Mount mounts the volume, and with it completes or undoes the changes that a crash cut short; and the root, where the machine was started without one:
	// until then every call that needs it fails with FAILED_PRECONDITION. What is mounted already stays as it is. FAILED_PRECONDITION: there is no such disk.
	Mount(context.Context, *connect.Request[v1.MountRequest]) (*connect.Response[v1.MountResponse], error)
	// Quiesce kills all processes, refuses everything that needs the root or the volume from then on, flushes both, and unmounts them or makes them read-only:
	// nothing is lost with the end of the machine. It takes at most 20 s; DEADLINE_EXCEEDED: it could not be done. Idempotent.
	Quiesce(context.Context, *connect.Request[v1.QuiesceRequest]) (*connect.Response[v1.QuiesceResponse], error)
	// Freeze flushes file systems and stops all writing to them, until Thaw, the end of the limit or of this session. One that is frozen already is thawed first. With
	// processes those stand still, too, until Thaw, the end of the limit or the next Renew, unless that says otherwise, where the machine has a kernel of its own.
	Freeze(context.Context, *connect.Request[v1.FreezeRequest]) (*connect.Response[v1.FreezeResponse], error)
	// Thaw lets writing go on. Idempotent.
	Thaw(context.Context, *connect.Request[v1.ThawRequest]) (*connect.Response[v1.ThawResponse], error)
	// Flush has everything that was written to the volume, and to the root where that is asked for, on the disk.
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
