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

// Code generated by protoc-gen-go. DO NOT EDIT.
// versions:
// 	protoc-gen-go v1.36.12
// 	protoc        (unknown)
// source: agent/v1/agent.proto

package agentv1

import (
	v1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	protoreflect "google.golang.org/protobuf/reflect/protoreflect"
	protoimpl "google.golang.org/protobuf/runtime/protoimpl"
	reflect "reflect"
	sync "sync"
	unsafe "unsafe"
)

const (
	// Verify that this generated code is sufficiently up-to-date.
	_ = protoimpl.EnforceVersion(20 - protoimpl.MinVersion)
	// Verify that runtime/protoimpl is sufficiently up-to-date.
	_ = protoimpl.EnforceVersion(protoimpl.MaxVersion - 20)
)

type Stream int32

const (
	Stream_STREAM_STDOUT Stream = 0
	Stream_STREAM_STDERR Stream = 1
)

// Enum value maps for Stream.
var (
	Stream_name = map[int32]string{
		0: "STREAM_STDOUT",
		1: "STREAM_STDERR",
	}
	Stream_value = map[string]int32{
		"STREAM_STDOUT": 0,
		"STREAM_STDERR": 1,
	}
)

func (x Stream) Enum() *Stream {
	p := new(Stream)
	*p = x
	return p
}

func (x Stream) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (Stream) Descriptor() protoreflect.EnumDescriptor {
	return file_agent_v1_agent_proto_enumTypes[0].Descriptor()
}

func (Stream) Type() protoreflect.EnumType {
	return &file_agent_v1_agent_proto_enumTypes[0]
}

func (x Stream) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use Stream.Descriptor instead.
func (Stream) EnumDescriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{0}
}

type Scope int32

const (
	Scope_SCOPE_GROUP Scope = 0 // the process group, or the foreground group of a PTY
	Scope_SCOPE_TREE  Scope = 1 // all processes that the exec started; signal must be 9
)

// Enum value maps for Scope.
var (
	Scope_name = map[int32]string{
		0: "SCOPE_GROUP",
		1: "SCOPE_TREE",
	}
	Scope_value = map[string]int32{
		"SCOPE_GROUP": 0,
		"SCOPE_TREE":  1,
	}
)

func (x Scope) Enum() *Scope {
	p := new(Scope)
	*p = x
	return p
}

func (x Scope) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (Scope) Descriptor() protoreflect.EnumDescriptor {
	return file_agent_v1_agent_proto_enumTypes[1].Descriptor()
}

func (Scope) Type() protoreflect.EnumType {
	return &file_agent_v1_agent_proto_enumTypes[1]
}

func (x Scope) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use Scope.Descriptor instead.
func (Scope) EnumDescriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{1}
}

type FileType int32

const (
	FileType_FILE_TYPE_UNSPECIFIED FileType = 0
	FileType_FILE_TYPE_REGULAR     FileType = 1
	FileType_FILE_TYPE_DIRECTORY   FileType = 2
	FileType_FILE_TYPE_SYMLINK     FileType = 3
	FileType_FILE_TYPE_OTHER       FileType = 4
)

// Enum value maps for FileType.
var (
	FileType_name = map[int32]string{
		0: "FILE_TYPE_UNSPECIFIED",
		1: "FILE_TYPE_REGULAR",
		2: "FILE_TYPE_DIRECTORY",
		3: "FILE_TYPE_SYMLINK",
		4: "FILE_TYPE_OTHER",
	}
	FileType_value = map[string]int32{
		"FILE_TYPE_UNSPECIFIED": 0,
		"FILE_TYPE_REGULAR":     1,
		"FILE_TYPE_DIRECTORY":   2,
		"FILE_TYPE_SYMLINK":     3,
		"FILE_TYPE_OTHER":       4,
	}
)

func (x FileType) Enum() *FileType {
	p := new(FileType)
	*p = x
	return p
}

func (x FileType) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (FileType) Descriptor() protoreflect.EnumDescriptor {
	return file_agent_v1_agent_proto_enumTypes[2].Descriptor()
}

func (FileType) Type() protoreflect.EnumType {
	return &file_agent_v1_agent_proto_enumTypes[2]
}

func (x FileType) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use FileType.Descriptor instead.
func (FileType) EnumDescriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{2}
}

type StatusRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *StatusRequest) Reset() {
	*x = StatusRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[0]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *StatusRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*StatusRequest) ProtoMessage() {}

func (x *StatusRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[0]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use StatusRequest.ProtoReflect.Descriptor instead.
func (*StatusRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{0}
}

type StatusResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Version       string                 `protobuf:"bytes,1,opt,name=version,proto3" json:"version,omitempty"` // version of the agent, at most 64 bytes
	Renewed       bool                   `protobuf:"varint,2,opt,name=renewed,proto3" json:"renewed,omitempty"`
	Kernel        string                 `protobuf:"bytes,3,opt,name=kernel,proto3" json:"kernel,omitempty"` // kernel release, at most 128 bytes
	UptimeMs      int64                  `protobuf:"varint,4,opt,name=uptime_ms,json=uptimeMs,proto3" json:"uptime_ms,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *StatusResponse) Reset() {
	*x = StatusResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[1]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *StatusResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*StatusResponse) ProtoMessage() {}

func (x *StatusResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[1]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use StatusResponse.ProtoReflect.Descriptor instead.
func (*StatusResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{1}
}

func (x *StatusResponse) GetVersion() string {
	if x != nil {
		return x.Version
	}
	return ""
}

func (x *StatusResponse) GetRenewed() bool {
	if x != nil {
		return x.Renewed
	}
	return false
}

func (x *StatusResponse) GetKernel() string {
	if x != nil {
		return x.Kernel
	}
	return ""
}

func (x *StatusResponse) GetUptimeMs() int64 {
	if x != nil {
		return x.UptimeMs
	}
	return 0
}

type RenewRequest struct {
	state     protoimpl.MessageState `protogen:"open.v1"`
	UnixNanos int64                  `protobuf:"varint,1,opt,name=unix_nanos,json=unixNanos,proto3" json:"unix_nanos,omitempty"` // the host's clock when the request is sent
	Entropy   []byte                 `protobuf:"bytes,2,opt,name=entropy,proto3" json:"entropy,omitempty"`                       // 32 to 512 bytes from the host's random source, credited in full
	// 32 lower-case hex digits. If they differ from the machine's current ID, the machine is a copy
	// and also gets a new boot ID.
	MachineId string `protobuf:"bytes,3,opt,name=machine_id,json=machineId,proto3" json:"machine_id,omitempty"`
	Hostname  string `protobuf:"bytes,4,opt,name=hostname,proto3" json:"hostname,omitempty"` // a DNS label of at most 63 bytes
	// Absent: the machine has no network interface, and resolv.conf is unchanged. If the field is set
	// and the machine is the host, Renew fails with UNIMPLEMENTED.
	Network *Network `protobuf:"bytes,5,opt,name=network,proto3" json:"network,omitempty"`
	// The root is a new copy of the environment. Renew then removes the files that must be unique to
	// a machine, such as SSH host keys.
	FreshRoot bool `protobuf:"varint,6,opt,name=fresh_root,json=freshRoot,proto3" json:"fresh_root,omitempty"`
	// Processes that Freeze stopped stay stopped until Thaw or a Renew without held.
	Held          bool `protobuf:"varint,7,opt,name=held,proto3" json:"held,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *RenewRequest) Reset() {
	*x = RenewRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[2]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *RenewRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*RenewRequest) ProtoMessage() {}

func (x *RenewRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[2]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use RenewRequest.ProtoReflect.Descriptor instead.
func (*RenewRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{2}
}

func (x *RenewRequest) GetUnixNanos() int64 {
	if x != nil {
		return x.UnixNanos
	}
	return 0
}

func (x *RenewRequest) GetEntropy() []byte {
	if x != nil {
		return x.Entropy
	}
	return nil
}

func (x *RenewRequest) GetMachineId() string {
	if x != nil {
		return x.MachineId
	}
	return ""
}

func (x *RenewRequest) GetHostname() string {
	if x != nil {
		return x.Hostname
	}
	return ""
}

func (x *RenewRequest) GetNetwork() *Network {
	if x != nil {
		return x.Network
	}
	return nil
}

func (x *RenewRequest) GetFreshRoot() bool {
	if x != nil {
		return x.FreshRoot
	}
	return false
}

func (x *RenewRequest) GetHeld() bool {
	if x != nil {
		return x.Held
	}
	return false
}

// Network configures the machine's only interface, eth0, and the machine's name servers. If the
// configuration equals the previous one, eth0 does not change.
type Network struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Mac           []byte                 `protobuf:"bytes,1,opt,name=mac,proto3" json:"mac,omitempty"`           // 6 bytes, a unicast address
	Address       string                 `protobuf:"bytes,2,opt,name=address,proto3" json:"address,omitempty"`   // IPv4 with the prefix length, such as 10.170.3.2/24
	Gateway       string                 `protobuf:"bytes,3,opt,name=gateway,proto3" json:"gateway,omitempty"`   // another address in that network
	Address6      string                 `protobuf:"bytes,4,opt,name=address6,proto3" json:"address6,omitempty"` // IPv6 with the prefix length, or empty
	Gateway6      string                 `protobuf:"bytes,5,opt,name=gateway6,proto3" json:"gateway6,omitempty"` // empty if address6 is empty
	Dns           []string               `protobuf:"bytes,6,rep,name=dns,proto3" json:"dns,omitempty"`           // addresses of name servers, 1 to 3
	Mtu           uint32                 `protobuf:"varint,7,opt,name=mtu,proto3" json:"mtu,omitempty"`          // 1280 to 65535
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Network) Reset() {
	*x = Network{}
	mi := &file_agent_v1_agent_proto_msgTypes[3]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Network) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Network) ProtoMessage() {}

func (x *Network) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[3]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Network.ProtoReflect.Descriptor instead.
func (*Network) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{3}
}

func (x *Network) GetMac() []byte {
	if x != nil {
		return x.Mac
	}
	return nil
}

func (x *Network) GetAddress() string {
	if x != nil {
		return x.Address
	}
	return ""
}

func (x *Network) GetGateway() string {
	if x != nil {
		return x.Gateway
	}
	return ""
}

func (x *Network) GetAddress6() string {
	if x != nil {
		return x.Address6
	}
	return ""
}

func (x *Network) GetGateway6() string {
	if x != nil {
		return x.Gateway6
	}
	return ""
}

func (x *Network) GetDns() []string {
	if x != nil {
		return x.Dns
	}
	return nil
}

func (x *Network) GetMtu() uint32 {
	if x != nil {
		return x.Mtu
	}
	return 0
}

type RenewResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	UnixNanos     int64                  `protobuf:"varint,1,opt,name=unix_nanos,json=unixNanos,proto3" json:"unix_nanos,omitempty"` // the guest's clock after it was set
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *RenewResponse) Reset() {
	*x = RenewResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[4]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *RenewResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*RenewResponse) ProtoMessage() {}

func (x *RenewResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[4]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use RenewResponse.ProtoReflect.Descriptor instead.
func (*RenewResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{4}
}

func (x *RenewResponse) GetUnixNanos() int64 {
	if x != nil {
		return x.UnixNanos
	}
	return 0
}

type ExecRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Command       *v1.Command            `protobuf:"bytes,1,opt,name=command,proto3" json:"command,omitempty"`
	Release       []string               `protobuf:"bytes,2,rep,name=release,proto3" json:"release,omitempty"` // exec IDs to release without calls of Release; at most 64
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ExecRequest) Reset() {
	*x = ExecRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[5]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ExecRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ExecRequest) ProtoMessage() {}

func (x *ExecRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[5]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ExecRequest.ProtoReflect.Descriptor instead.
func (*ExecRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{5}
}

func (x *ExecRequest) GetCommand() *v1.Command {
	if x != nil {
		return x.Command
	}
	return nil
}

func (x *ExecRequest) GetRelease() []string {
	if x != nil {
		return x.Release
	}
	return nil
}

// ExecEvent contains all new events, so that a short command needs only one message. The first
// message has started, and the last message has exit. If a stream has both a gap and output, the
// gap comes before the output.
type ExecEvent struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Started       *Started               `protobuf:"bytes,1,opt,name=started,proto3" json:"started,omitempty"`
	Gaps          []*Gap                 `protobuf:"bytes,2,rep,name=gaps,proto3" json:"gaps,omitempty"`       // at most one per stream
	Outputs       []*Output              `protobuf:"bytes,3,rep,name=outputs,proto3" json:"outputs,omitempty"` // at most one per stream
	Exit          *v1.Exit               `protobuf:"bytes,4,opt,name=exit,proto3" json:"exit,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ExecEvent) Reset() {
	*x = ExecEvent{}
	mi := &file_agent_v1_agent_proto_msgTypes[6]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ExecEvent) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ExecEvent) ProtoMessage() {}

func (x *ExecEvent) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[6]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ExecEvent.ProtoReflect.Descriptor instead.
func (*ExecEvent) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{6}
}

func (x *ExecEvent) GetStarted() *Started {
	if x != nil {
		return x.Started
	}
	return nil
}

func (x *ExecEvent) GetGaps() []*Gap {
	if x != nil {
		return x.Gaps
	}
	return nil
}

func (x *ExecEvent) GetOutputs() []*Output {
	if x != nil {
		return x.Outputs
	}
	return nil
}

func (x *ExecEvent) GetExit() *v1.Exit {
	if x != nil {
		return x.Exit
	}
	return nil
}

type Started struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Pid           uint32                 `protobuf:"varint,1,opt,name=pid,proto3" json:"pid,omitempty"` // PID in the agent's namespace; 0 if the process never ran
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Started) Reset() {
	*x = Started{}
	mi := &file_agent_v1_agent_proto_msgTypes[7]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Started) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Started) ProtoMessage() {}

func (x *Started) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[7]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Started.ProtoReflect.Descriptor instead.
func (*Started) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{7}
}

func (x *Started) GetPid() uint32 {
	if x != nil {
		return x.Pid
	}
	return 0
}

type Output struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Stream        Stream                 `protobuf:"varint,1,opt,name=stream,proto3,enum=agent.v1.Stream" json:"stream,omitempty"`
	Offset        uint64                 `protobuf:"varint,2,opt,name=offset,proto3" json:"offset,omitempty"` // offset of data since the start of the process
	Data          []byte                 `protobuf:"bytes,3,opt,name=data,proto3" json:"data,omitempty"`      // 1 byte to 256 KiB
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Output) Reset() {
	*x = Output{}
	mi := &file_agent_v1_agent_proto_msgTypes[8]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Output) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Output) ProtoMessage() {}

func (x *Output) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[8]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Output.ProtoReflect.Descriptor instead.
func (*Output) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{8}
}

func (x *Output) GetStream() Stream {
	if x != nil {
		return x.Stream
	}
	return Stream_STREAM_STDOUT
}

func (x *Output) GetOffset() uint64 {
	if x != nil {
		return x.Offset
	}
	return 0
}

func (x *Output) GetData() []byte {
	if x != nil {
		return x.Data
	}
	return nil
}

// Gap says that some bytes of a stream are lost: the offsets in the interval [from, to).
type Gap struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Stream        Stream                 `protobuf:"varint,1,opt,name=stream,proto3,enum=agent.v1.Stream" json:"stream,omitempty"`
	From          uint64                 `protobuf:"varint,2,opt,name=from,proto3" json:"from,omitempty"`
	To            uint64                 `protobuf:"varint,3,opt,name=to,proto3" json:"to,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Gap) Reset() {
	*x = Gap{}
	mi := &file_agent_v1_agent_proto_msgTypes[9]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Gap) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Gap) ProtoMessage() {}

func (x *Gap) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[9]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Gap.ProtoReflect.Descriptor instead.
func (*Gap) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{9}
}

func (x *Gap) GetStream() Stream {
	if x != nil {
		return x.Stream
	}
	return Stream_STREAM_STDOUT
}

func (x *Gap) GetFrom() uint64 {
	if x != nil {
		return x.From
	}
	return 0
}

func (x *Gap) GetTo() uint64 {
	if x != nil {
		return x.To
	}
	return 0
}

type FollowRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	ExecId        string                 `protobuf:"bytes,1,opt,name=exec_id,json=execId,proto3" json:"exec_id,omitempty"`
	StdoutOffset  uint64                 `protobuf:"varint,2,opt,name=stdout_offset,json=stdoutOffset,proto3" json:"stdout_offset,omitempty"`
	StderrOffset  uint64                 `protobuf:"varint,3,opt,name=stderr_offset,json=stderrOffset,proto3" json:"stderr_offset,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *FollowRequest) Reset() {
	*x = FollowRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[10]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *FollowRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*FollowRequest) ProtoMessage() {}

func (x *FollowRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[10]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use FollowRequest.ProtoReflect.Descriptor instead.
func (*FollowRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{10}
}

func (x *FollowRequest) GetExecId() string {
	if x != nil {
		return x.ExecId
	}
	return ""
}

func (x *FollowRequest) GetStdoutOffset() uint64 {
	if x != nil {
		return x.StdoutOffset
	}
	return 0
}

func (x *FollowRequest) GetStderrOffset() uint64 {
	if x != nil {
		return x.StderrOffset
	}
	return 0
}

type AckRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	ExecId        string                 `protobuf:"bytes,1,opt,name=exec_id,json=execId,proto3" json:"exec_id,omitempty"`
	StdoutOffset  uint64                 `protobuf:"varint,2,opt,name=stdout_offset,json=stdoutOffset,proto3" json:"stdout_offset,omitempty"`
	StderrOffset  uint64                 `protobuf:"varint,3,opt,name=stderr_offset,json=stderrOffset,proto3" json:"stderr_offset,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *AckRequest) Reset() {
	*x = AckRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[11]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *AckRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*AckRequest) ProtoMessage() {}

func (x *AckRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[11]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use AckRequest.ProtoReflect.Descriptor instead.
func (*AckRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{11}
}

func (x *AckRequest) GetExecId() string {
	if x != nil {
		return x.ExecId
	}
	return ""
}

func (x *AckRequest) GetStdoutOffset() uint64 {
	if x != nil {
		return x.StdoutOffset
	}
	return 0
}

func (x *AckRequest) GetStderrOffset() uint64 {
	if x != nil {
		return x.StderrOffset
	}
	return 0
}

type AckResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *AckResponse) Reset() {
	*x = AckResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[12]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *AckResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*AckResponse) ProtoMessage() {}

func (x *AckResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[12]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use AckResponse.ProtoReflect.Descriptor instead.
func (*AckResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{12}
}

type InputRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	ExecId        string                 `protobuf:"bytes,1,opt,name=exec_id,json=execId,proto3" json:"exec_id,omitempty"`
	Offset        uint64                 `protobuf:"varint,2,opt,name=offset,proto3" json:"offset,omitempty"`
	Data          []byte                 `protobuf:"bytes,3,opt,name=data,proto3" json:"data,omitempty"` // at most 256 KiB
	Eof           bool                   `protobuf:"varint,4,opt,name=eof,proto3" json:"eof,omitempty"`  // close the input after data; on a PTY, type the end-of-file character
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *InputRequest) Reset() {
	*x = InputRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[13]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *InputRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*InputRequest) ProtoMessage() {}

func (x *InputRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[13]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use InputRequest.ProtoReflect.Descriptor instead.
func (*InputRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{13}
}

func (x *InputRequest) GetExecId() string {
	if x != nil {
		return x.ExecId
	}
	return ""
}

func (x *InputRequest) GetOffset() uint64 {
	if x != nil {
		return x.Offset
	}
	return 0
}

func (x *InputRequest) GetData() []byte {
	if x != nil {
		return x.Data
	}
	return nil
}

func (x *InputRequest) GetEof() bool {
	if x != nil {
		return x.Eof
	}
	return false
}

type InputResponse struct {
	state    protoimpl.MessageState `protogen:"open.v1"`
	Accepted uint64                 `protobuf:"varint,1,opt,name=accepted,proto3" json:"accepted,omitempty"` // offset of the next byte
	Closed   bool                   `protobuf:"varint,2,opt,name=closed,proto3" json:"closed,omitempty"`     // the process has closed its standard input
	// If the program reads whole lines from a PTY: the longest line that the PTY accepts, without the
	// line break. The PTY drops the rest of a longer line.
	LineLimit     uint32 `protobuf:"varint,3,opt,name=line_limit,json=lineLimit,proto3" json:"line_limit,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *InputResponse) Reset() {
	*x = InputResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[14]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *InputResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*InputResponse) ProtoMessage() {}

func (x *InputResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[14]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use InputResponse.ProtoReflect.Descriptor instead.
func (*InputResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{14}
}

func (x *InputResponse) GetAccepted() uint64 {
	if x != nil {
		return x.Accepted
	}
	return 0
}

func (x *InputResponse) GetClosed() bool {
	if x != nil {
		return x.Closed
	}
	return false
}

func (x *InputResponse) GetLineLimit() uint32 {
	if x != nil {
		return x.LineLimit
	}
	return 0
}

type SignalRequest struct {
	state  protoimpl.MessageState `protogen:"open.v1"`
	ExecId string                 `protobuf:"bytes,1,opt,name=exec_id,json=execId,proto3" json:"exec_id,omitempty"`
	Signal uint32                 `protobuf:"varint,2,opt,name=signal,proto3" json:"signal,omitempty"` // 1 to 64
	Scope  Scope                  `protobuf:"varint,3,opt,name=scope,proto3,enum=agent.v1.Scope" json:"scope,omitempty"`
	// If this is not 0 and the keys of a PTY discard unread input, SIGINT, SIGQUIT and SIGTSTP do the
	// same. They also discard input before this offset that arrives later.
	Typed         uint64 `protobuf:"varint,4,opt,name=typed,proto3" json:"typed,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *SignalRequest) Reset() {
	*x = SignalRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[15]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *SignalRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*SignalRequest) ProtoMessage() {}

func (x *SignalRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[15]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use SignalRequest.ProtoReflect.Descriptor instead.
func (*SignalRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{15}
}

func (x *SignalRequest) GetExecId() string {
	if x != nil {
		return x.ExecId
	}
	return ""
}

func (x *SignalRequest) GetSignal() uint32 {
	if x != nil {
		return x.Signal
	}
	return 0
}

func (x *SignalRequest) GetScope() Scope {
	if x != nil {
		return x.Scope
	}
	return Scope_SCOPE_GROUP
}

func (x *SignalRequest) GetTyped() uint64 {
	if x != nil {
		return x.Typed
	}
	return 0
}

type SignalResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *SignalResponse) Reset() {
	*x = SignalResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[16]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *SignalResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*SignalResponse) ProtoMessage() {}

func (x *SignalResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[16]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use SignalResponse.ProtoReflect.Descriptor instead.
func (*SignalResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{16}
}

type ResizeRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	ExecId        string                 `protobuf:"bytes,1,opt,name=exec_id,json=execId,proto3" json:"exec_id,omitempty"`
	Cols          uint32                 `protobuf:"varint,2,opt,name=cols,proto3" json:"cols,omitempty"`
	Rows          uint32                 `protobuf:"varint,3,opt,name=rows,proto3" json:"rows,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ResizeRequest) Reset() {
	*x = ResizeRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[17]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ResizeRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ResizeRequest) ProtoMessage() {}

func (x *ResizeRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[17]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ResizeRequest.ProtoReflect.Descriptor instead.
func (*ResizeRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{17}
}

func (x *ResizeRequest) GetExecId() string {
	if x != nil {
		return x.ExecId
	}
	return ""
}

func (x *ResizeRequest) GetCols() uint32 {
	if x != nil {
		return x.Cols
	}
	return 0
}

func (x *ResizeRequest) GetRows() uint32 {
	if x != nil {
		return x.Rows
	}
	return 0
}

type ResizeResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ResizeResponse) Reset() {
	*x = ResizeResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[18]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ResizeResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ResizeResponse) ProtoMessage() {}

func (x *ResizeResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[18]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ResizeResponse.ProtoReflect.Descriptor instead.
func (*ResizeResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{18}
}

type ReleaseRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	ExecId        string                 `protobuf:"bytes,1,opt,name=exec_id,json=execId,proto3" json:"exec_id,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReleaseRequest) Reset() {
	*x = ReleaseRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[19]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseRequest) ProtoMessage() {}

func (x *ReleaseRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[19]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReleaseRequest.ProtoReflect.Descriptor instead.
func (*ReleaseRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{19}
}

func (x *ReleaseRequest) GetExecId() string {
	if x != nil {
		return x.ExecId
	}
	return ""
}

type ReleaseResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReleaseResponse) Reset() {
	*x = ReleaseResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[20]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseResponse) ProtoMessage() {}

func (x *ReleaseResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[20]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReleaseResponse.ProtoReflect.Descriptor instead.
func (*ReleaseResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{20}
}

type StatRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Path          string                 `protobuf:"bytes,1,opt,name=path,proto3" json:"path,omitempty"` // absolute, at most 4096 bytes
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *StatRequest) Reset() {
	*x = StatRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[21]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *StatRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*StatRequest) ProtoMessage() {}

func (x *StatRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[21]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use StatRequest.ProtoReflect.Descriptor instead.
func (*StatRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{21}
}

func (x *StatRequest) GetPath() string {
	if x != nil {
		return x.Path
	}
	return ""
}

type StatResponse struct {
	state          protoimpl.MessageState `protogen:"open.v1"`
	Type           FileType               `protobuf:"varint,1,opt,name=type,proto3,enum=agent.v1.FileType" json:"type,omitempty"`
	Size           uint64                 `protobuf:"varint,2,opt,name=size,proto3" json:"size,omitempty"`
	Mode           uint32                 `protobuf:"varint,3,opt,name=mode,proto3" json:"mode,omitempty"` // permission, set-id and sticky bits
	MtimeUnixNanos int64                  `protobuf:"varint,4,opt,name=mtime_unix_nanos,json=mtimeUnixNanos,proto3" json:"mtime_unix_nanos,omitempty"`
	Uid            uint32                 `protobuf:"varint,5,opt,name=uid,proto3" json:"uid,omitempty"`
	Gid            uint32                 `protobuf:"varint,6,opt,name=gid,proto3" json:"gid,omitempty"`
	LinkTarget     string                 `protobuf:"bytes,7,opt,name=link_target,json=linkTarget,proto3" json:"link_target,omitempty"` // only for a symbolic link, at most 4096 bytes
	unknownFields  protoimpl.UnknownFields
	sizeCache      protoimpl.SizeCache
}

func (x *StatResponse) Reset() {
	*x = StatResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[22]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *StatResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*StatResponse) ProtoMessage() {}

func (x *StatResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[22]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use StatResponse.ProtoReflect.Descriptor instead.
func (*StatResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{22}
}

func (x *StatResponse) GetType() FileType {
	if x != nil {
		return x.Type
	}
	return FileType_FILE_TYPE_UNSPECIFIED
}

func (x *StatResponse) GetSize() uint64 {
	if x != nil {
		return x.Size
	}
	return 0
}

func (x *StatResponse) GetMode() uint32 {
	if x != nil {
		return x.Mode
	}
	return 0
}

func (x *StatResponse) GetMtimeUnixNanos() int64 {
	if x != nil {
		return x.MtimeUnixNanos
	}
	return 0
}

func (x *StatResponse) GetUid() uint32 {
	if x != nil {
		return x.Uid
	}
	return 0
}

func (x *StatResponse) GetGid() uint32 {
	if x != nil {
		return x.Gid
	}
	return 0
}

func (x *StatResponse) GetLinkTarget() string {
	if x != nil {
		return x.LinkTarget
	}
	return ""
}

type WatchFoldersRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Paths         [][]byte               `protobuf:"bytes,1,rep,name=paths,proto3" json:"paths,omitempty"` // absolute, at most 4096 bytes each; 1 to 64
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *WatchFoldersRequest) Reset() {
	*x = WatchFoldersRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[23]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *WatchFoldersRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*WatchFoldersRequest) ProtoMessage() {}

func (x *WatchFoldersRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[23]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use WatchFoldersRequest.ProtoReflect.Descriptor instead.
func (*WatchFoldersRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{23}
}

func (x *WatchFoldersRequest) GetPaths() [][]byte {
	if x != nil {
		return x.Paths
	}
	return nil
}

type WatchFoldersResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Changed       uint64                 `protobuf:"varint,1,opt,name=changed,proto3" json:"changed,omitempty"` // bit N: path N has changed; 0 only in the first message
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *WatchFoldersResponse) Reset() {
	*x = WatchFoldersResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[24]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *WatchFoldersResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*WatchFoldersResponse) ProtoMessage() {}

func (x *WatchFoldersResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[24]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use WatchFoldersResponse.ProtoReflect.Descriptor instead.
func (*WatchFoldersResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{24}
}

func (x *WatchFoldersResponse) GetChanged() uint64 {
	if x != nil {
		return x.Changed
	}
	return 0
}

// ReadyRequest is a readiness check. At most one of the first three fields is set. If none is set,
// the exec only needs to run.
type ReadyRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	File  string                 `protobuf:"bytes,1,opt,name=file,proto3" json:"file,omitempty"` // absolute, at most 4096 bytes; links are followed
	Tcp   string                 `protobuf:"bytes,2,opt,name=tcp,proto3" json:"tcp,omitempty"`   // host:port, at most 256 bytes: ready when it accepts a connection
	Http  string                 `protobuf:"bytes,3,opt,name=http,proto3" json:"http,omitempty"` // a URL, at most 4096 bytes: ready when its status is 200 to 399
	// Longest time between two requests to http, 1 to 3600000. Files and ports are checked more
	// often.
	IntervalMs uint32 `protobuf:"varint,4,opt,name=interval_ms,json=intervalMs,proto3" json:"interval_ms,omitempty"`
	LimitMs    uint32 `protobuf:"varint,5,opt,name=limit_ms,json=limitMs,proto3" json:"limit_ms,omitempty"` // 1 to 3600000
	// The exec that becomes ready; empty for any. The check fails with FAILED_PRECONDITION if it has
	// ended. A port of this machine counts only if a process of the exec listens.
	Exec          string            `protobuf:"bytes,6,opt,name=exec,proto3" json:"exec,omitempty"`
	Stale         string            `protobuf:"bytes,7,opt,name=stale,proto3" json:"stale,omitempty"`                                                                           // a stamp from an earlier response: a file that still has it does not count
	Names         map[string]string `protobuf:"bytes,8,rep,name=names,proto3" json:"names,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"` // names of execs by ID, at most 64, for the error about a port
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReadyRequest) Reset() {
	*x = ReadyRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[25]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReadyRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReadyRequest) ProtoMessage() {}

func (x *ReadyRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[25]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReadyRequest.ProtoReflect.Descriptor instead.
func (*ReadyRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{25}
}

func (x *ReadyRequest) GetFile() string {
	if x != nil {
		return x.File
	}
	return ""
}

func (x *ReadyRequest) GetTcp() string {
	if x != nil {
		return x.Tcp
	}
	return ""
}

func (x *ReadyRequest) GetHttp() string {
	if x != nil {
		return x.Http
	}
	return ""
}

func (x *ReadyRequest) GetIntervalMs() uint32 {
	if x != nil {
		return x.IntervalMs
	}
	return 0
}

func (x *ReadyRequest) GetLimitMs() uint32 {
	if x != nil {
		return x.LimitMs
	}
	return 0
}

func (x *ReadyRequest) GetExec() string {
	if x != nil {
		return x.Exec
	}
	return ""
}

func (x *ReadyRequest) GetStale() string {
	if x != nil {
		return x.Stale
	}
	return ""
}

func (x *ReadyRequest) GetNames() map[string]string {
	if x != nil {
		return x.Names
	}
	return nil
}

type ReadyResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Stamp         string                 `protobuf:"bytes,1,opt,name=stamp,proto3" json:"stamp,omitempty"` // changes when the file is changed or replaced; empty without a file
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReadyResponse) Reset() {
	*x = ReadyResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[26]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReadyResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReadyResponse) ProtoMessage() {}

func (x *ReadyResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[26]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReadyResponse.ProtoReflect.Descriptor instead.
func (*ReadyResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{26}
}

func (x *ReadyResponse) GetStamp() string {
	if x != nil {
		return x.Stamp
	}
	return ""
}

type MountRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Root          bool                   `protobuf:"varint,1,opt,name=root,proto3" json:"root,omitempty"`
	Volume        bool                   `protobuf:"varint,2,opt,name=volume,proto3" json:"volume,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *MountRequest) Reset() {
	*x = MountRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[27]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *MountRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*MountRequest) ProtoMessage() {}

func (x *MountRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[27]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use MountRequest.ProtoReflect.Descriptor instead.
func (*MountRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{27}
}

func (x *MountRequest) GetRoot() bool {
	if x != nil {
		return x.Root
	}
	return false
}

func (x *MountRequest) GetVolume() bool {
	if x != nil {
		return x.Volume
	}
	return false
}

type MountResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Completed     uint32                 `protobuf:"varint,1,opt,name=completed,proto3" json:"completed,omitempty"` // changes that were committed before the crash, and are now complete
	Undone        uint32                 `protobuf:"varint,2,opt,name=undone,proto3" json:"undone,omitempty"`       // changes that were not committed before the crash, and are now undone
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *MountResponse) Reset() {
	*x = MountResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[28]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *MountResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*MountResponse) ProtoMessage() {}

func (x *MountResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[28]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use MountResponse.ProtoReflect.Descriptor instead.
func (*MountResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{28}
}

func (x *MountResponse) GetCompleted() uint32 {
	if x != nil {
		return x.Completed
	}
	return 0
}

func (x *MountResponse) GetUndone() uint32 {
	if x != nil {
		return x.Undone
	}
	return 0
}

type QuiesceRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *QuiesceRequest) Reset() {
	*x = QuiesceRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[29]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *QuiesceRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*QuiesceRequest) ProtoMessage() {}

func (x *QuiesceRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[29]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use QuiesceRequest.ProtoReflect.Descriptor instead.
func (*QuiesceRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{29}
}

type QuiesceResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *QuiesceResponse) Reset() {
	*x = QuiesceResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[30]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *QuiesceResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*QuiesceResponse) ProtoMessage() {}

func (x *QuiesceResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[30]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use QuiesceResponse.ProtoReflect.Descriptor instead.
func (*QuiesceResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{30}
}

type FreezeRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Root          bool                   `protobuf:"varint,1,opt,name=root,proto3" json:"root,omitempty"`
	Volume        bool                   `protobuf:"varint,2,opt,name=volume,proto3" json:"volume,omitempty"`
	LimitMs       uint32                 `protobuf:"varint,3,opt,name=limit_ms,json=limitMs,proto3" json:"limit_ms,omitempty"` // 1 to 60000
	Processes     bool                   `protobuf:"varint,4,opt,name=processes,proto3" json:"processes,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *FreezeRequest) Reset() {
	*x = FreezeRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[31]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *FreezeRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*FreezeRequest) ProtoMessage() {}

func (x *FreezeRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[31]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use FreezeRequest.ProtoReflect.Descriptor instead.
func (*FreezeRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{31}
}

func (x *FreezeRequest) GetRoot() bool {
	if x != nil {
		return x.Root
	}
	return false
}

func (x *FreezeRequest) GetVolume() bool {
	if x != nil {
		return x.Volume
	}
	return false
}

func (x *FreezeRequest) GetLimitMs() uint32 {
	if x != nil {
		return x.LimitMs
	}
	return 0
}

func (x *FreezeRequest) GetProcesses() bool {
	if x != nil {
		return x.Processes
	}
	return false
}

type FreezeResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Frozen        bool                   `protobuf:"varint,1,opt,name=frozen,proto3" json:"frozen,omitempty"` // false: freezing is not supported here, and the volume was only flushed
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *FreezeResponse) Reset() {
	*x = FreezeResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[32]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *FreezeResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*FreezeResponse) ProtoMessage() {}

func (x *FreezeResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[32]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use FreezeResponse.ProtoReflect.Descriptor instead.
func (*FreezeResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{32}
}

func (x *FreezeResponse) GetFrozen() bool {
	if x != nil {
		return x.Frozen
	}
	return false
}

type ThawRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ThawRequest) Reset() {
	*x = ThawRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[33]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ThawRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ThawRequest) ProtoMessage() {}

func (x *ThawRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[33]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ThawRequest.ProtoReflect.Descriptor instead.
func (*ThawRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{33}
}

type ThawResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Held          bool                   `protobuf:"varint,1,opt,name=held,proto3" json:"held,omitempty"` // the file systems were still frozen when Thaw was called
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ThawResponse) Reset() {
	*x = ThawResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[34]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ThawResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ThawResponse) ProtoMessage() {}

func (x *ThawResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[34]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ThawResponse.ProtoReflect.Descriptor instead.
func (*ThawResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{34}
}

func (x *ThawResponse) GetHeld() bool {
	if x != nil {
		return x.Held
	}
	return false
}

type FlushRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Root          bool                   `protobuf:"varint,1,opt,name=root,proto3" json:"root,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *FlushRequest) Reset() {
	*x = FlushRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[35]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *FlushRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*FlushRequest) ProtoMessage() {}

func (x *FlushRequest) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[35]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use FlushRequest.ProtoReflect.Descriptor instead.
func (*FlushRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{35}
}

func (x *FlushRequest) GetRoot() bool {
	if x != nil {
		return x.Root
	}
	return false
}

type FlushResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *FlushResponse) Reset() {
	*x = FlushResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[36]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *FlushResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*FlushResponse) ProtoMessage() {}

func (x *FlushResponse) ProtoReflect() protoreflect.Message {
	mi := &file_agent_v1_agent_proto_msgTypes[36]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use FlushResponse.ProtoReflect.Descriptor instead.
func (*FlushResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{36}
}

var File_agent_v1_agent_proto protoreflect.FileDescriptor

const file_agent_v1_agent_proto_rawDesc = "" +
	"\n" +
	"\x14agent/v1/agent.proto\x12\bagent.v1\x1a\x18program/v1/program.proto\"\x0f\n" +
	"\rStatusRequest\"y\n" +
	"\x0eStatusResponse\x12\x18\n" +
	"\aversion\x18\x01 \x01(\tR\aversion\x12\x18\n" +
	"\arenewed\x18\x02 \x01(\bR\arenewed\x12\x16\n" +
	"\x06kernel\x18\x03 \x01(\tR\x06kernel\x12\x1b\n" +
	"\tuptime_ms\x18\x04 \x01(\x03R\buptimeMs\"\xe2\x01\n" +
	"\fRenewRequest\x12\x1d\n" +
	"\n" +
	"unix_nanos\x18\x01 \x01(\x03R\tunixNanos\x12\x18\n" +
	"\aentropy\x18\x02 \x01(\fR\aentropy\x12\x1d\n" +
	"\n" +
	"machine_id\x18\x03 \x01(\tR\tmachineId\x12\x1a\n" +
	"\bhostname\x18\x04 \x01(\tR\bhostname\x12+\n" +
	"\anetwork\x18\x05 \x01(\v2\x11.agent.v1.NetworkR\anetwork\x12\x1d\n" +
	"\n" +
	"fresh_root\x18\x06 \x01(\bR\tfreshRoot\x12\x12\n" +
	"\x04held\x18\a \x01(\bR\x04held\"\xab\x01\n" +
	"\aNetwork\x12\x10\n" +
	"\x03mac\x18\x01 \x01(\fR\x03mac\x12\x18\n" +
	"\aaddress\x18\x02 \x01(\tR\aaddress\x12\x18\n" +
	"\agateway\x18\x03 \x01(\tR\agateway\x12\x1a\n" +
	"\baddress6\x18\x04 \x01(\tR\baddress6\x12\x1a\n" +
	"\bgateway6\x18\x05 \x01(\tR\bgateway6\x12\x10\n" +
	"\x03dns\x18\x06 \x03(\tR\x03dns\x12\x10\n" +
	"\x03mtu\x18\a \x01(\rR\x03mtu\".\n" +
	"\rRenewResponse\x12\x1d\n" +
	"\n" +
	"unix_nanos\x18\x01 \x01(\x03R\tunixNanos\"V\n" +
	"\vExecRequest\x12-\n" +
	"\acommand\x18\x01 \x01(\v2\x13.program.v1.CommandR\acommand\x12\x18\n" +
	"\arelease\x18\x02 \x03(\tR\arelease\"\xad\x01\n" +
	"\tExecEvent\x12+\n" +
	"\astarted\x18\x01 \x01(\v2\x11.agent.v1.StartedR\astarted\x12!\n" +
	"\x04gaps\x18\x02 \x03(\v2\r.agent.v1.GapR\x04gaps\x12*\n" +
	"\aoutputs\x18\x03 \x03(\v2\x10.agent.v1.OutputR\aoutputs\x12$\n" +
	"\x04exit\x18\x04 \x01(\v2\x10.program.v1.ExitR\x04exit\"\x1b\n" +
	"\aStarted\x12\x10\n" +
	"\x03pid\x18\x01 \x01(\rR\x03pid\"^\n" +
	"\x06Output\x12(\n" +
	"\x06stream\x18\x01 \x01(\x0e2\x10.agent.v1.StreamR\x06stream\x12\x16\n" +
	"\x06offset\x18\x02 \x01(\x04R\x06offset\x12\x12\n" +
	"\x04data\x18\x03 \x01(\fR\x04data\"S\n" +
	"\x03Gap\x12(\n" +
	"\x06stream\x18\x01 \x01(\x0e2\x10.agent.v1.StreamR\x06stream\x12\x12\n" +
	"\x04from\x18\x02 \x01(\x04R\x04from\x12\x0e\n" +
	"\x02to\x18\x03 \x01(\x04R\x02to\"r\n" +
	"\rFollowRequest\x12\x17\n" +
	"\aexec_id\x18\x01 \x01(\tR\x06execId\x12#\n" +
	"\rstdout_offset\x18\x02 \x01(\x04R\fstdoutOffset\x12#\n" +
	"\rstderr_offset\x18\x03 \x01(\x04R\fstderrOffset\"o\n" +
	"\n" +
	"AckRequest\x12\x17\n" +
	"\aexec_id\x18\x01 \x01(\tR\x06execId\x12#\n" +
	"\rstdout_offset\x18\x02 \x01(\x04R\fstdoutOffset\x12#\n" +
	"\rstderr_offset\x18\x03 \x01(\x04R\fstderrOffset\"\r\n" +
	"\vAckResponse\"e\n" +
	"\fInputRequest\x12\x17\n" +
	"\aexec_id\x18\x01 \x01(\tR\x06execId\x12\x16\n" +
	"\x06offset\x18\x02 \x01(\x04R\x06offset\x12\x12\n" +
	"\x04data\x18\x03 \x01(\fR\x04data\x12\x10\n" +
	"\x03eof\x18\x04 \x01(\bR\x03eof\"b\n" +
	"\rInputResponse\x12\x1a\n" +
	"\baccepted\x18\x01 \x01(\x04R\baccepted\x12\x16\n" +
	"\x06closed\x18\x02 \x01(\bR\x06closed\x12\x1d\n" +
	"\n" +
	"line_limit\x18\x03 \x01(\rR\tlineLimit\"}\n" +
	"\rSignalRequest\x12\x17\n" +
	"\aexec_id\x18\x01 \x01(\tR\x06execId\x12\x16\n" +
	"\x06signal\x18\x02 \x01(\rR\x06signal\x12%\n" +
	"\x05scope\x18\x03 \x01(\x0e2\x0f.agent.v1.ScopeR\x05scope\x12\x14\n" +
	"\x05typed\x18\x04 \x01(\x04R\x05typed\"\x10\n" +
	"\x0eSignalResponse\"P\n" +
	"\rResizeRequest\x12\x17\n" +
	"\aexec_id\x18\x01 \x01(\tR\x06execId\x12\x12\n" +
	"\x04cols\x18\x02 \x01(\rR\x04cols\x12\x12\n" +
	"\x04rows\x18\x03 \x01(\rR\x04rows\"\x10\n" +
	"\x0eResizeResponse\")\n" +
	"\x0eReleaseRequest\x12\x17\n" +
	"\aexec_id\x18\x01 \x01(\tR\x06execId\"\x11\n" +
	"\x0fReleaseResponse\"!\n" +
	"\vStatRequest\x12\x12\n" +
	"\x04path\x18\x01 \x01(\tR\x04path\"\xcd\x01\n" +
	"\fStatResponse\x12&\n" +
	"\x04type\x18\x01 \x01(\x0e2\x12.agent.v1.FileTypeR\x04type\x12\x12\n" +
	"\x04size\x18\x02 \x01(\x04R\x04size\x12\x12\n" +
	"\x04mode\x18\x03 \x01(\rR\x04mode\x12(\n" +
	"\x10mtime_unix_nanos\x18\x04 \x01(\x03R\x0emtimeUnixNanos\x12\x10\n" +
	"\x03uid\x18\x05 \x01(\rR\x03uid\x12\x10\n" +
	"\x03gid\x18\x06 \x01(\rR\x03gid\x12\x1f\n" +
	"\vlink_target\x18\a \x01(\tR\n" +
	"linkTarget\"+\n" +
	"\x13WatchFoldersRequest\x12\x14\n" +
	"\x05paths\x18\x01 \x03(\fR\x05paths\"0\n" +
	"\x14WatchFoldersResponse\x12\x18\n" +
	"\achanged\x18\x01 \x01(\x04R\achanged\"\xa1\x02\n" +
	"\fReadyRequest\x12\x12\n" +
	"\x04file\x18\x01 \x01(\tR\x04file\x12\x10\n" +
	"\x03tcp\x18\x02 \x01(\tR\x03tcp\x12\x12\n" +
	"\x04http\x18\x03 \x01(\tR\x04http\x12\x1f\n" +
	"\vinterval_ms\x18\x04 \x01(\rR\n" +
	"intervalMs\x12\x19\n" +
	"\blimit_ms\x18\x05 \x01(\rR\alimitMs\x12\x12\n" +
	"\x04exec\x18\x06 \x01(\tR\x04exec\x12\x14\n" +
	"\x05stale\x18\a \x01(\tR\x05stale\x127\n" +
	"\x05names\x18\b \x03(\v2!.agent.v1.ReadyRequest.NamesEntryR\x05names\x1a8\n" +
	"\n" +
	"NamesEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n" +
	"\x05value\x18\x02 \x01(\tR\x05value:\x028\x01\"%\n" +
	"\rReadyResponse\x12\x14\n" +
	"\x05stamp\x18\x01 \x01(\tR\x05stamp\":\n" +
	"\fMountRequest\x12\x12\n" +
	"\x04root\x18\x01 \x01(\bR\x04root\x12\x16\n" +
	"\x06volume\x18\x02 \x01(\bR\x06volume\"E\n" +
	"\rMountResponse\x12\x1c\n" +
	"\tcompleted\x18\x01 \x01(\rR\tcompleted\x12\x16\n" +
	"\x06undone\x18\x02 \x01(\rR\x06undone\"\x10\n" +
	"\x0eQuiesceRequest\"\x11\n" +
	"\x0fQuiesceResponse\"t\n" +
	"\rFreezeRequest\x12\x12\n" +
	"\x04root\x18\x01 \x01(\bR\x04root\x12\x16\n" +
	"\x06volume\x18\x02 \x01(\bR\x06volume\x12\x19\n" +
	"\blimit_ms\x18\x03 \x01(\rR\alimitMs\x12\x1c\n" +
	"\tprocesses\x18\x04 \x01(\bR\tprocesses\"(\n" +
	"\x0eFreezeResponse\x12\x16\n" +
	"\x06frozen\x18\x01 \x01(\bR\x06frozen\"\r\n" +
	"\vThawRequest\"\"\n" +
	"\fThawResponse\x12\x12\n" +
	"\x04held\x18\x01 \x01(\bR\x04held\"\"\n" +
	"\fFlushRequest\x12\x12\n" +
	"\x04root\x18\x01 \x01(\bR\x04root\"\x0f\n" +
	"\rFlushResponse*.\n" +
	"\x06Stream\x12\x11\n" +
	"\rSTREAM_STDOUT\x10\x00\x12\x11\n" +
	"\rSTREAM_STDERR\x10\x01*(\n" +
	"\x05Scope\x12\x0f\n" +
	"\vSCOPE_GROUP\x10\x00\x12\x0e\n" +
	"\n" +
	"SCOPE_TREE\x10\x01*\x81\x01\n" +
	"\bFileType\x12\x19\n" +
	"\x15FILE_TYPE_UNSPECIFIED\x10\x00\x12\x15\n" +
	"\x11FILE_TYPE_REGULAR\x10\x01\x12\x17\n" +
	"\x13FILE_TYPE_DIRECTORY\x10\x02\x12\x15\n" +
	"\x11FILE_TYPE_SYMLINK\x10\x03\x12\x13\n" +
	"\x0fFILE_TYPE_OTHER\x10\x042\x87\b\n" +
	"\fAgentService\x12;\n" +
	"\x06Status\x12\x17.agent.v1.StatusRequest\x1a\x18.agent.v1.StatusResponse\x128\n" +
	"\x05Renew\x12\x16.agent.v1.RenewRequest\x1a\x17.agent.v1.RenewResponse\x124\n" +
	"\x04Exec\x12\x15.agent.v1.ExecRequest\x1a\x13.agent.v1.ExecEvent0\x01\x128\n" +
	"\x06Follow\x12\x17.agent.v1.FollowRequest\x1a\x13.agent.v1.ExecEvent0\x01\x122\n" +
	"\x03Ack\x12\x14.agent.v1.AckRequest\x1a\x15.agent.v1.AckResponse\x128\n" +
	"\x05Input\x12\x16.agent.v1.InputRequest\x1a\x17.agent.v1.InputResponse\x12;\n" +
	"\x06Signal\x12\x17.agent.v1.SignalRequest\x1a\x18.agent.v1.SignalResponse\x12;\n" +
	"\x06Resize\x12\x17.agent.v1.ResizeRequest\x1a\x18.agent.v1.ResizeResponse\x12>\n" +
	"\aRelease\x12\x18.agent.v1.ReleaseRequest\x1a\x19.agent.v1.ReleaseResponse\x125\n" +
	"\x04Stat\x12\x15.agent.v1.StatRequest\x1a\x16.agent.v1.StatResponse\x12O\n" +
	"\fWatchFolders\x12\x1d.agent.v1.WatchFoldersRequest\x1a\x1e.agent.v1.WatchFoldersResponse0\x01\x128\n" +
	"\x05Ready\x12\x16.agent.v1.ReadyRequest\x1a\x17.agent.v1.ReadyResponse\x128\n" +
	"\x05Mount\x12\x16.agent.v1.MountRequest\x1a\x17.agent.v1.MountResponse\x12>\n" +
	"\aQuiesce\x12\x18.agent.v1.QuiesceRequest\x1a\x19.agent.v1.QuiesceResponse\x12;\n" +
	"\x06Freeze\x12\x17.agent.v1.FreezeRequest\x1a\x18.agent.v1.FreezeResponse\x125\n" +
	"\x04Thaw\x12\x15.agent.v1.ThawRequest\x1a\x16.agent.v1.ThawResponse\x128\n" +
	"\x05Flush\x12\x16.agent.v1.FlushRequest\x1a\x17.agent.v1.FlushResponseB8Z6github.com/pyro-mcp/pyro/internal/gen/agent/v1;agentv1b\x06proto3"

var (
	file_agent_v1_agent_proto_rawDescOnce sync.Once
	file_agent_v1_agent_proto_rawDescData []byte
)

func file_agent_v1_agent_proto_rawDescGZIP() []byte {
	file_agent_v1_agent_proto_rawDescOnce.Do(func() {
		file_agent_v1_agent_proto_rawDescData = protoimpl.X.CompressGZIP(unsafe.Slice(unsafe.StringData(file_agent_v1_agent_proto_rawDesc), len(file_agent_v1_agent_proto_rawDesc)))
	})
	return file_agent_v1_agent_proto_rawDescData
}

var file_agent_v1_agent_proto_enumTypes = make([]protoimpl.EnumInfo, 3)
var file_agent_v1_agent_proto_msgTypes = make([]protoimpl.MessageInfo, 38)
var file_agent_v1_agent_proto_goTypes = []any{
	(Stream)(0),                  // 0: agent.v1.Stream
	(Scope)(0),                   // 1: agent.v1.Scope
	(FileType)(0),                // 2: agent.v1.FileType
	(*StatusRequest)(nil),        // 3: agent.v1.StatusRequest
	(*StatusResponse)(nil),       // 4: agent.v1.StatusResponse
	(*RenewRequest)(nil),         // 5: agent.v1.RenewRequest
	(*Network)(nil),              // 6: agent.v1.Network
	(*RenewResponse)(nil),        // 7: agent.v1.RenewResponse
	(*ExecRequest)(nil),          // 8: agent.v1.ExecRequest
	(*ExecEvent)(nil),            // 9: agent.v1.ExecEvent
	(*Started)(nil),              // 10: agent.v1.Started
	(*Output)(nil),               // 11: agent.v1.Output
	(*Gap)(nil),                  // 12: agent.v1.Gap
	(*FollowRequest)(nil),        // 13: agent.v1.FollowRequest
	(*AckRequest)(nil),           // 14: agent.v1.AckRequest
	(*AckResponse)(nil),          // 15: agent.v1.AckResponse
	(*InputRequest)(nil),         // 16: agent.v1.InputRequest
	(*InputResponse)(nil),        // 17: agent.v1.InputResponse
	(*SignalRequest)(nil),        // 18: agent.v1.SignalRequest
	(*SignalResponse)(nil),       // 19: agent.v1.SignalResponse
	(*ResizeRequest)(nil),        // 20: agent.v1.ResizeRequest
	(*ResizeResponse)(nil),       // 21: agent.v1.ResizeResponse
	(*ReleaseRequest)(nil),       // 22: agent.v1.ReleaseRequest
	(*ReleaseResponse)(nil),      // 23: agent.v1.ReleaseResponse
	(*StatRequest)(nil),          // 24: agent.v1.StatRequest
	(*StatResponse)(nil),         // 25: agent.v1.StatResponse
	(*WatchFoldersRequest)(nil),  // 26: agent.v1.WatchFoldersRequest
	(*WatchFoldersResponse)(nil), // 27: agent.v1.WatchFoldersResponse
	(*ReadyRequest)(nil),         // 28: agent.v1.ReadyRequest
	(*ReadyResponse)(nil),        // 29: agent.v1.ReadyResponse
	(*MountRequest)(nil),         // 30: agent.v1.MountRequest
	(*MountResponse)(nil),        // 31: agent.v1.MountResponse
	(*QuiesceRequest)(nil),       // 32: agent.v1.QuiesceRequest
	(*QuiesceResponse)(nil),      // 33: agent.v1.QuiesceResponse
	(*FreezeRequest)(nil),        // 34: agent.v1.FreezeRequest
	(*FreezeResponse)(nil),       // 35: agent.v1.FreezeResponse
	(*ThawRequest)(nil),          // 36: agent.v1.ThawRequest
	(*ThawResponse)(nil),         // 37: agent.v1.ThawResponse
	(*FlushRequest)(nil),         // 38: agent.v1.FlushRequest
	(*FlushResponse)(nil),        // 39: agent.v1.FlushResponse
	nil,                          // 40: agent.v1.ReadyRequest.NamesEntry
	(*v1.Command)(nil),           // 41: program.v1.Command
	(*v1.Exit)(nil),              // 42: program.v1.Exit
}
var file_agent_v1_agent_proto_depIdxs = []int32{
	6,  // 0: agent.v1.RenewRequest.network:type_name -> agent.v1.Network
	41, // 1: agent.v1.ExecRequest.command:type_name -> program.v1.Command
	10, // 2: agent.v1.ExecEvent.started:type_name -> agent.v1.Started
	12, // 3: agent.v1.ExecEvent.gaps:type_name -> agent.v1.Gap
	11, // 4: agent.v1.ExecEvent.outputs:type_name -> agent.v1.Output
	42, // 5: agent.v1.ExecEvent.exit:type_name -> program.v1.Exit
	0,  // 6: agent.v1.Output.stream:type_name -> agent.v1.Stream
	0,  // 7: agent.v1.Gap.stream:type_name -> agent.v1.Stream
	1,  // 8: agent.v1.SignalRequest.scope:type_name -> agent.v1.Scope
	2,  // 9: agent.v1.StatResponse.type:type_name -> agent.v1.FileType
	40, // 10: agent.v1.ReadyRequest.names:type_name -> agent.v1.ReadyRequest.NamesEntry
	3,  // 11: agent.v1.AgentService.Status:input_type -> agent.v1.StatusRequest
	5,  // 12: agent.v1.AgentService.Renew:input_type -> agent.v1.RenewRequest
	8,  // 13: agent.v1.AgentService.Exec:input_type -> agent.v1.ExecRequest
	13, // 14: agent.v1.AgentService.Follow:input_type -> agent.v1.FollowRequest
	14, // 15: agent.v1.AgentService.Ack:input_type -> agent.v1.AckRequest
	16, // 16: agent.v1.AgentService.Input:input_type -> agent.v1.InputRequest
	18, // 17: agent.v1.AgentService.Signal:input_type -> agent.v1.SignalRequest
	20, // 18: agent.v1.AgentService.Resize:input_type -> agent.v1.ResizeRequest
	22, // 19: agent.v1.AgentService.Release:input_type -> agent.v1.ReleaseRequest
	24, // 20: agent.v1.AgentService.Stat:input_type -> agent.v1.StatRequest
	26, // 21: agent.v1.AgentService.WatchFolders:input_type -> agent.v1.WatchFoldersRequest
	28, // 22: agent.v1.AgentService.Ready:input_type -> agent.v1.ReadyRequest
	30, // 23: agent.v1.AgentService.Mount:input_type -> agent.v1.MountRequest
	32, // 24: agent.v1.AgentService.Quiesce:input_type -> agent.v1.QuiesceRequest
	34, // 25: agent.v1.AgentService.Freeze:input_type -> agent.v1.FreezeRequest
	36, // 26: agent.v1.AgentService.Thaw:input_type -> agent.v1.ThawRequest
	38, // 27: agent.v1.AgentService.Flush:input_type -> agent.v1.FlushRequest
	4,  // 28: agent.v1.AgentService.Status:output_type -> agent.v1.StatusResponse
	7,  // 29: agent.v1.AgentService.Renew:output_type -> agent.v1.RenewResponse
	9,  // 30: agent.v1.AgentService.Exec:output_type -> agent.v1.ExecEvent
	9,  // 31: agent.v1.AgentService.Follow:output_type -> agent.v1.ExecEvent
	15, // 32: agent.v1.AgentService.Ack:output_type -> agent.v1.AckResponse
	17, // 33: agent.v1.AgentService.Input:output_type -> agent.v1.InputResponse
	19, // 34: agent.v1.AgentService.Signal:output_type -> agent.v1.SignalResponse
	21, // 35: agent.v1.AgentService.Resize:output_type -> agent.v1.ResizeResponse
	23, // 36: agent.v1.AgentService.Release:output_type -> agent.v1.ReleaseResponse
	25, // 37: agent.v1.AgentService.Stat:output_type -> agent.v1.StatResponse
	27, // 38: agent.v1.AgentService.WatchFolders:output_type -> agent.v1.WatchFoldersResponse
	29, // 39: agent.v1.AgentService.Ready:output_type -> agent.v1.ReadyResponse
	31, // 40: agent.v1.AgentService.Mount:output_type -> agent.v1.MountResponse
	33, // 41: agent.v1.AgentService.Quiesce:output_type -> agent.v1.QuiesceResponse
	35, // 42: agent.v1.AgentService.Freeze:output_type -> agent.v1.FreezeResponse
	37, // 43: agent.v1.AgentService.Thaw:output_type -> agent.v1.ThawResponse
	39, // 44: agent.v1.AgentService.Flush:output_type -> agent.v1.FlushResponse
	28, // [28:45] is the sub-list for method output_type
	11, // [11:28] is the sub-list for method input_type
	11, // [11:11] is the sub-list for extension type_name
	11, // [11:11] is the sub-list for extension extendee
	0,  // [0:11] is the sub-list for field type_name
}

func init() { file_agent_v1_agent_proto_init() }
func file_agent_v1_agent_proto_init() {
	if File_agent_v1_agent_proto != nil {
		return
	}
	type x struct{}
	out := protoimpl.TypeBuilder{
		File: protoimpl.DescBuilder{
			GoPackagePath: reflect.TypeOf(x{}).PkgPath(),
			RawDescriptor: unsafe.Slice(unsafe.StringData(file_agent_v1_agent_proto_rawDesc), len(file_agent_v1_agent_proto_rawDesc)),
			NumEnums:      3,
			NumMessages:   38,
			NumExtensions: 0,
			NumServices:   1,
		},
		GoTypes:           file_agent_v1_agent_proto_goTypes,
		DependencyIndexes: file_agent_v1_agent_proto_depIdxs,
		EnumInfos:         file_agent_v1_agent_proto_enumTypes,
		MessageInfos:      file_agent_v1_agent_proto_msgTypes,
	}.Build()
	File_agent_v1_agent_proto = out.File
	file_agent_v1_agent_proto_goTypes = nil
	file_agent_v1_agent_proto_depIdxs = nil
}
