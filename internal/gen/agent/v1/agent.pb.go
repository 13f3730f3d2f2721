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

// Code generated by protoc-gen-go. DO NOT EDIT.
// versions:
// 	protoc-gen-go v1.36.12
// 	protoc        (unknown)
// source: agent/v1/agent.proto

package agentv1

import (
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

type OnFull int32

const (
	OnFull_ON_FULL_BLOCK       OnFull = 0 // the process waits for its reader: nothing is lost
	OnFull_ON_FULL_DROP_OLDEST OnFull = 1 // the oldest output goes, and readers are told which
)

// Enum value maps for OnFull.
var (
	OnFull_name = map[int32]string{
		0: "ON_FULL_BLOCK",
		1: "ON_FULL_DROP_OLDEST",
	}
	OnFull_value = map[string]int32{
		"ON_FULL_BLOCK":       0,
		"ON_FULL_DROP_OLDEST": 1,
	}
)

func (x OnFull) Enum() *OnFull {
	p := new(OnFull)
	*p = x
	return p
}

func (x OnFull) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (OnFull) Descriptor() protoreflect.EnumDescriptor {
	return file_agent_v1_agent_proto_enumTypes[0].Descriptor()
}

func (OnFull) Type() protoreflect.EnumType {
	return &file_agent_v1_agent_proto_enumTypes[0]
}

func (x OnFull) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use OnFull.Descriptor instead.
func (OnFull) EnumDescriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{0}
}

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
	return file_agent_v1_agent_proto_enumTypes[1].Descriptor()
}

func (Stream) Type() protoreflect.EnumType {
	return &file_agent_v1_agent_proto_enumTypes[1]
}

func (x Stream) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use Stream.Descriptor instead.
func (Stream) EnumDescriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{1}
}

type StartFailure int32

const (
	StartFailure_START_FAILURE_NONE           StartFailure = 0
	StartFailure_START_FAILURE_NOT_FOUND      StartFailure = 1 // 127
	StartFailure_START_FAILURE_NOT_EXECUTABLE StartFailure = 2 // 126, argument list too long among them
	StartFailure_START_FAILURE_BAD_CWD        StartFailure = 3 // 126
	StartFailure_START_FAILURE_BAD_USER       StartFailure = 4 // 126
	StartFailure_START_FAILURE_NO_RESOURCES   StartFailure = 5 // 126, the machine's process limit for one
)

// Enum value maps for StartFailure.
var (
	StartFailure_name = map[int32]string{
		0: "START_FAILURE_NONE",
		1: "START_FAILURE_NOT_FOUND",
		2: "START_FAILURE_NOT_EXECUTABLE",
		3: "START_FAILURE_BAD_CWD",
		4: "START_FAILURE_BAD_USER",
		5: "START_FAILURE_NO_RESOURCES",
	}
	StartFailure_value = map[string]int32{
		"START_FAILURE_NONE":           0,
		"START_FAILURE_NOT_FOUND":      1,
		"START_FAILURE_NOT_EXECUTABLE": 2,
		"START_FAILURE_BAD_CWD":        3,
		"START_FAILURE_BAD_USER":       4,
		"START_FAILURE_NO_RESOURCES":   5,
	}
)

func (x StartFailure) Enum() *StartFailure {
	p := new(StartFailure)
	*p = x
	return p
}

func (x StartFailure) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (StartFailure) Descriptor() protoreflect.EnumDescriptor {
	return file_agent_v1_agent_proto_enumTypes[2].Descriptor()
}

func (StartFailure) Type() protoreflect.EnumType {
	return &file_agent_v1_agent_proto_enumTypes[2]
}

func (x StartFailure) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use StartFailure.Descriptor instead.
func (StartFailure) EnumDescriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{2}
}

type Scope int32

const (
	Scope_SCOPE_GROUP Scope = 0 // the process group; with a PTY its foreground group
	Scope_SCOPE_TREE  Scope = 1 // everything that the exec ever started; signal must be 9
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
	return file_agent_v1_agent_proto_enumTypes[3].Descriptor()
}

func (Scope) Type() protoreflect.EnumType {
	return &file_agent_v1_agent_proto_enumTypes[3]
}

func (x Scope) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use Scope.Descriptor instead.
func (Scope) EnumDescriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{3}
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
	return file_agent_v1_agent_proto_enumTypes[4].Descriptor()
}

func (FileType) Type() protoreflect.EnumType {
	return &file_agent_v1_agent_proto_enumTypes[4]
}

func (x FileType) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use FileType.Descriptor instead.
func (FileType) EnumDescriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{4}
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
	Version       string                 `protobuf:"bytes,1,opt,name=version,proto3" json:"version,omitempty"` // of the agent, at most 64 bytes
	Renewed       bool                   `protobuf:"varint,2,opt,name=renewed,proto3" json:"renewed,omitempty"`
	Kernel        string                 `protobuf:"bytes,3,opt,name=kernel,proto3" json:"kernel,omitempty"` // release, at most 128 bytes
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
	UnixNanos int64                  `protobuf:"varint,1,opt,name=unix_nanos,json=unixNanos,proto3" json:"unix_nanos,omitempty"` // the host's clock as the request is sent
	Entropy   []byte                 `protobuf:"bytes,2,opt,name=entropy,proto3" json:"entropy,omitempty"`                       // 32 to 512 bytes from the host's random source, credited in full
	MachineId string                 `protobuf:"bytes,3,opt,name=machine_id,json=machineId,proto3" json:"machine_id,omitempty"`  // 32 lower-case hex digits. Another one than before: the machine is a copy, and gets a boot id of its own
	Hostname  string                 `protobuf:"bytes,4,opt,name=hostname,proto3" json:"hostname,omitempty"`                     // at most 63 bytes, a DNS label
	Network   *Network               `protobuf:"bytes,5,opt,name=network,proto3" json:"network,omitempty"`                       // absent: the machine has no link, and resolv.conf stays as it is. UNIMPLEMENTED where the machine is the host
	// The root is the environment as it is, which no machine has written to before: what was in it that must be one machine's alone, the host keys of an SSH server, is
	// removed.
	FreshRoot     bool `protobuf:"varint,6,opt,name=fresh_root,json=freshRoot,proto3" json:"fresh_root,omitempty"`
	Held          bool `protobuf:"varint,7,opt,name=held,proto3" json:"held,omitempty"` // processes that stand still by Freeze go on doing so, until Thaw or the next Renew without it
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

// Network is what the machine's one interface, eth0, is to be, and who resolves names for it. The same once more leaves eth0 as it is by then.
type Network struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Mac           []byte                 `protobuf:"bytes,1,opt,name=mac,proto3" json:"mac,omitempty"`           // 6 bytes, of one station
	Address       string                 `protobuf:"bytes,2,opt,name=address,proto3" json:"address,omitempty"`   // IPv4, with the bits of its network: 10.170.3.2/24
	Gateway       string                 `protobuf:"bytes,3,opt,name=gateway,proto3" json:"gateway,omitempty"`   // another address in that network
	Address6      string                 `protobuf:"bytes,4,opt,name=address6,proto3" json:"address6,omitempty"` // the same of IPv6; empty: none
	Gateway6      string                 `protobuf:"bytes,5,opt,name=gateway6,proto3" json:"gateway6,omitempty"` // empty where address6 is
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
	ExecId        string                 `protobuf:"bytes,1,opt,name=exec_id,json=execId,proto3" json:"exec_id,omitempty"` // 1 to 64 bytes
	Argv          []string               `protobuf:"bytes,2,rep,name=argv,proto3" json:"argv,omitempty"`                   // at least one; in all at most 4 MiB
	Env           []string               `protobuf:"bytes,3,rep,name=env,proto3" json:"env,omitempty"`                     // NAME=VALUE, added to the environment's own
	Cwd           string                 `protobuf:"bytes,4,opt,name=cwd,proto3" json:"cwd,omitempty"`                     // absolute; empty: the home of the user, or / where it is missing
	User          string                 `protobuf:"bytes,5,opt,name=user,proto3" json:"user,omitempty"`                   // name or number, optionally :group; empty: root
	Stdin         bool                   `protobuf:"varint,6,opt,name=stdin,proto3" json:"stdin,omitempty"`                // false: /dev/null
	Tty           *Terminal              `protobuf:"bytes,7,opt,name=tty,proto3" json:"tty,omitempty"`                     // set: the process is on a PTY, and all its output is STDOUT
	OnFull        OnFull                 `protobuf:"varint,8,opt,name=on_full,json=onFull,proto3,enum=agent.v1.OnFull" json:"on_full,omitempty"`
	Release       []string               `protobuf:"bytes,10,rep,name=release,proto3" json:"release,omitempty"`                      // execs to forget, as Release does: it spares them a call of their own. At most 64
	TimeoutMs     int64                  `protobuf:"varint,9,opt,name=timeout_ms,json=timeoutMs,proto3" json:"timeout_ms,omitempty"` // 0: none. When it is over, everything that the exec started is killed and exit says timed_out
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

func (x *ExecRequest) GetExecId() string {
	if x != nil {
		return x.ExecId
	}
	return ""
}

func (x *ExecRequest) GetArgv() []string {
	if x != nil {
		return x.Argv
	}
	return nil
}

func (x *ExecRequest) GetEnv() []string {
	if x != nil {
		return x.Env
	}
	return nil
}

func (x *ExecRequest) GetCwd() string {
	if x != nil {
		return x.Cwd
	}
	return ""
}

func (x *ExecRequest) GetUser() string {
	if x != nil {
		return x.User
	}
	return ""
}

func (x *ExecRequest) GetStdin() bool {
	if x != nil {
		return x.Stdin
	}
	return false
}

func (x *ExecRequest) GetTty() *Terminal {
	if x != nil {
		return x.Tty
	}
	return nil
}

func (x *ExecRequest) GetOnFull() OnFull {
	if x != nil {
		return x.OnFull
	}
	return OnFull_ON_FULL_BLOCK
}

func (x *ExecRequest) GetRelease() []string {
	if x != nil {
		return x.Release
	}
	return nil
}

func (x *ExecRequest) GetTimeoutMs() int64 {
	if x != nil {
		return x.TimeoutMs
	}
	return 0
}

type Terminal struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Cols          uint32                 `protobuf:"varint,1,opt,name=cols,proto3" json:"cols,omitempty"` // 1 to 1000
	Rows          uint32                 `protobuf:"varint,2,opt,name=rows,proto3" json:"rows,omitempty"` // 1 to 1000
	Term          string                 `protobuf:"bytes,3,opt,name=term,proto3" json:"term,omitempty"`  // TERM; empty: xterm-256color
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Terminal) Reset() {
	*x = Terminal{}
	mi := &file_agent_v1_agent_proto_msgTypes[6]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Terminal) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Terminal) ProtoMessage() {}

func (x *Terminal) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use Terminal.ProtoReflect.Descriptor instead.
func (*Terminal) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{6}
}

func (x *Terminal) GetCols() uint32 {
	if x != nil {
		return x.Cols
	}
	return 0
}

func (x *Terminal) GetRows() uint32 {
	if x != nil {
		return x.Rows
	}
	return 0
}

func (x *Terminal) GetTerm() string {
	if x != nil {
		return x.Term
	}
	return ""
}

// ExecEvent carries all that is new, so that a short command is answered in one message. The first one of a stream has started, the last one has exit.
// In each stream's order, gaps come before the outputs.
type ExecEvent struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Started       *Started               `protobuf:"bytes,1,opt,name=started,proto3" json:"started,omitempty"`
	Gaps          []*Gap                 `protobuf:"bytes,2,rep,name=gaps,proto3" json:"gaps,omitempty"`       // at most one a stream
	Outputs       []*Output              `protobuf:"bytes,3,rep,name=outputs,proto3" json:"outputs,omitempty"` // at most one a stream
	Exit          *Exit                  `protobuf:"bytes,4,opt,name=exit,proto3" json:"exit,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ExecEvent) Reset() {
	*x = ExecEvent{}
	mi := &file_agent_v1_agent_proto_msgTypes[7]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ExecEvent) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ExecEvent) ProtoMessage() {}

func (x *ExecEvent) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use ExecEvent.ProtoReflect.Descriptor instead.
func (*ExecEvent) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{7}
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

func (x *ExecEvent) GetExit() *Exit {
	if x != nil {
		return x.Exit
	}
	return nil
}

type Started struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Pid           uint32                 `protobuf:"varint,1,opt,name=pid,proto3" json:"pid,omitempty"` // as the agent sees it; 0 where the process never ran
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Started) Reset() {
	*x = Started{}
	mi := &file_agent_v1_agent_proto_msgTypes[8]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Started) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Started) ProtoMessage() {}

func (x *Started) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use Started.ProtoReflect.Descriptor instead.
func (*Started) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{8}
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
	Offset        uint64                 `protobuf:"varint,2,opt,name=offset,proto3" json:"offset,omitempty"` // of data[0] since the start of the process
	Data          []byte                 `protobuf:"bytes,3,opt,name=data,proto3" json:"data,omitempty"`      // 1 byte to 256 KiB
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Output) Reset() {
	*x = Output{}
	mi := &file_agent_v1_agent_proto_msgTypes[9]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Output) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Output) ProtoMessage() {}

func (x *Output) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use Output.ProtoReflect.Descriptor instead.
func (*Output) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{9}
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

// Gap tells that the bytes from..to of a stream are gone.
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
	mi := &file_agent_v1_agent_proto_msgTypes[10]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Gap) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Gap) ProtoMessage() {}

func (x *Gap) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use Gap.ProtoReflect.Descriptor instead.
func (*Gap) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{10}
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

// Exit is sent once the process has been reaped and its output is at its end, or 100 ms after it has been reaped where somebody else
// still holds the output open.
type Exit struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Code          int32                  `protobuf:"varint,1,opt,name=code,proto3" json:"code,omitempty"`     // 0 to 255; 128 + signal where a signal ended it
	Signal        uint32                 `protobuf:"varint,2,opt,name=signal,proto3" json:"signal,omitempty"` // 0 for a normal exit
	TimedOut      bool                   `protobuf:"varint,3,opt,name=timed_out,json=timedOut,proto3" json:"timed_out,omitempty"`
	StartFailure  StartFailure           `protobuf:"varint,4,opt,name=start_failure,json=startFailure,proto3,enum=agent.v1.StartFailure" json:"start_failure,omitempty"` // set: the process never ran, code is 126 or 127 as shells use them
	Message       string                 `protobuf:"bytes,5,opt,name=message,proto3" json:"message,omitempty"`                                                           // with start_failure: why, at most 1 KiB
	DurationMs    int64                  `protobuf:"varint,6,opt,name=duration_ms,json=durationMs,proto3" json:"duration_ms,omitempty"`
	OutputHeld    bool                   `protobuf:"varint,7,opt,name=output_held,json=outputHeld,proto3" json:"output_held,omitempty"`      // somebody else still held the output open
	OutOfMemory   bool                   `protobuf:"varint,8,opt,name=out_of_memory,json=outOfMemory,proto3" json:"out_of_memory,omitempty"` // the machine ran out of memory while it ran and the kernel killed something of it
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Exit) Reset() {
	*x = Exit{}
	mi := &file_agent_v1_agent_proto_msgTypes[11]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Exit) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Exit) ProtoMessage() {}

func (x *Exit) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use Exit.ProtoReflect.Descriptor instead.
func (*Exit) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{11}
}

func (x *Exit) GetCode() int32 {
	if x != nil {
		return x.Code
	}
	return 0
}

func (x *Exit) GetSignal() uint32 {
	if x != nil {
		return x.Signal
	}
	return 0
}

func (x *Exit) GetTimedOut() bool {
	if x != nil {
		return x.TimedOut
	}
	return false
}

func (x *Exit) GetStartFailure() StartFailure {
	if x != nil {
		return x.StartFailure
	}
	return StartFailure_START_FAILURE_NONE
}

func (x *Exit) GetMessage() string {
	if x != nil {
		return x.Message
	}
	return ""
}

func (x *Exit) GetDurationMs() int64 {
	if x != nil {
		return x.DurationMs
	}
	return 0
}

func (x *Exit) GetOutputHeld() bool {
	if x != nil {
		return x.OutputHeld
	}
	return false
}

func (x *Exit) GetOutOfMemory() bool {
	if x != nil {
		return x.OutOfMemory
	}
	return false
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
	mi := &file_agent_v1_agent_proto_msgTypes[12]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *FollowRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*FollowRequest) ProtoMessage() {}

func (x *FollowRequest) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use FollowRequest.ProtoReflect.Descriptor instead.
func (*FollowRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{12}
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
	mi := &file_agent_v1_agent_proto_msgTypes[13]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *AckRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*AckRequest) ProtoMessage() {}

func (x *AckRequest) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use AckRequest.ProtoReflect.Descriptor instead.
func (*AckRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{13}
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
	mi := &file_agent_v1_agent_proto_msgTypes[14]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *AckResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*AckResponse) ProtoMessage() {}

func (x *AckResponse) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use AckResponse.ProtoReflect.Descriptor instead.
func (*AckResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{14}
}

type InputRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	ExecId        string                 `protobuf:"bytes,1,opt,name=exec_id,json=execId,proto3" json:"exec_id,omitempty"`
	Offset        uint64                 `protobuf:"varint,2,opt,name=offset,proto3" json:"offset,omitempty"`
	Data          []byte                 `protobuf:"bytes,3,opt,name=data,proto3" json:"data,omitempty"` // at most 256 KiB
	Eof           bool                   `protobuf:"varint,4,opt,name=eof,proto3" json:"eof,omitempty"`  // close the input after data; on a PTY, send the end-of-file character
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *InputRequest) Reset() {
	*x = InputRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[15]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *InputRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*InputRequest) ProtoMessage() {}

func (x *InputRequest) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use InputRequest.ProtoReflect.Descriptor instead.
func (*InputRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{15}
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
	state         protoimpl.MessageState `protogen:"open.v1"`
	Accepted      uint64                 `protobuf:"varint,1,opt,name=accepted,proto3" json:"accepted,omitempty"` // offset of the next byte
	Closed        bool                   `protobuf:"varint,2,opt,name=closed,proto3" json:"closed,omitempty"`     // the process takes no more
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *InputResponse) Reset() {
	*x = InputResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[16]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *InputResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*InputResponse) ProtoMessage() {}

func (x *InputResponse) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use InputResponse.ProtoReflect.Descriptor instead.
func (*InputResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{16}
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

type SignalRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	ExecId        string                 `protobuf:"bytes,1,opt,name=exec_id,json=execId,proto3" json:"exec_id,omitempty"`
	Signal        uint32                 `protobuf:"varint,2,opt,name=signal,proto3" json:"signal,omitempty"` // 1 to 64
	Scope         Scope                  `protobuf:"varint,3,opt,name=scope,proto3,enum=agent.v1.Scope" json:"scope,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *SignalRequest) Reset() {
	*x = SignalRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[17]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *SignalRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*SignalRequest) ProtoMessage() {}

func (x *SignalRequest) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use SignalRequest.ProtoReflect.Descriptor instead.
func (*SignalRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{17}
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

type SignalResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *SignalResponse) Reset() {
	*x = SignalResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[18]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *SignalResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*SignalResponse) ProtoMessage() {}

func (x *SignalResponse) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use SignalResponse.ProtoReflect.Descriptor instead.
func (*SignalResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{18}
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
	mi := &file_agent_v1_agent_proto_msgTypes[19]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ResizeRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ResizeRequest) ProtoMessage() {}

func (x *ResizeRequest) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use ResizeRequest.ProtoReflect.Descriptor instead.
func (*ResizeRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{19}
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
	mi := &file_agent_v1_agent_proto_msgTypes[20]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ResizeResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ResizeResponse) ProtoMessage() {}

func (x *ResizeResponse) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use ResizeResponse.ProtoReflect.Descriptor instead.
func (*ResizeResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{20}
}

type ReleaseRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	ExecId        string                 `protobuf:"bytes,1,opt,name=exec_id,json=execId,proto3" json:"exec_id,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReleaseRequest) Reset() {
	*x = ReleaseRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[21]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseRequest) ProtoMessage() {}

func (x *ReleaseRequest) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use ReleaseRequest.ProtoReflect.Descriptor instead.
func (*ReleaseRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{21}
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
	mi := &file_agent_v1_agent_proto_msgTypes[22]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseResponse) ProtoMessage() {}

func (x *ReleaseResponse) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use ReleaseResponse.ProtoReflect.Descriptor instead.
func (*ReleaseResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{22}
}

type StatRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Path          string                 `protobuf:"bytes,1,opt,name=path,proto3" json:"path,omitempty"` // absolute, at most 4096 bytes
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *StatRequest) Reset() {
	*x = StatRequest{}
	mi := &file_agent_v1_agent_proto_msgTypes[23]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *StatRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*StatRequest) ProtoMessage() {}

func (x *StatRequest) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use StatRequest.ProtoReflect.Descriptor instead.
func (*StatRequest) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{23}
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
	LinkTarget     string                 `protobuf:"bytes,7,opt,name=link_target,json=linkTarget,proto3" json:"link_target,omitempty"` // of a symbolic link, at most 4096 bytes
	unknownFields  protoimpl.UnknownFields
	sizeCache      protoimpl.SizeCache
}

func (x *StatResponse) Reset() {
	*x = StatResponse{}
	mi := &file_agent_v1_agent_proto_msgTypes[24]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *StatResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*StatResponse) ProtoMessage() {}

func (x *StatResponse) ProtoReflect() protoreflect.Message {
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

// Deprecated: Use StatResponse.ProtoReflect.Descriptor instead.
func (*StatResponse) Descriptor() ([]byte, []int) {
	return file_agent_v1_agent_proto_rawDescGZIP(), []int{24}
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

// ReadyRequest has one of the first three.
type ReadyRequest struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	File          string                 `protobuf:"bytes,1,opt,name=file,proto3" json:"file,omitempty"`                                // a path as of Stat; of a link what it leads to
	Tcp           string                 `protobuf:"bytes,2,opt,name=tcp,proto3" json:"tcp,omitempty"`                                  // host:port, at most 256 bytes: ready when a connection can be made
	Http          string                 `protobuf:"bytes,3,opt,name=http,proto3" json:"http,omitempty"`                                // a URL, at most 4096 bytes: ready when it is answered with a status from 200 to 399
	IntervalMs    uint32                 `protobuf:"varint,4,opt,name=interval_ms,json=intervalMs,proto3" json:"interval_ms,omitempty"` // at most between two requests to http, 1 to 3600000. Files and ports are looked at more often
	LimitMs       uint32                 `protobuf:"varint,5,opt,name=limit_ms,json=limitMs,proto3" json:"limit_ms,omitempty"`          // 1 to 3600000
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

type ReadyResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
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
	Completed     uint32                 `protobuf:"varint,1,opt,name=completed,proto3" json:"completed,omitempty"` // changes that were decided on when the crash came
	Undone        uint32                 `protobuf:"varint,2,opt,name=undone,proto3" json:"undone,omitempty"`       // changes that were not
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
	Frozen        bool                   `protobuf:"varint,1,opt,name=frozen,proto3" json:"frozen,omitempty"` // false: file systems can't be frozen here; the volume was flushed
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
	Held          bool                   `protobuf:"varint,1,opt,name=held,proto3" json:"held,omitempty"` // they had been frozen until now
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
	"\x14agent/v1/agent.proto\x12\bagent.v1\"\x0f\n" +
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
	"unix_nanos\x18\x01 \x01(\x03R\tunixNanos\"\x92\x02\n" +
	"\vExecRequest\x12\x17\n" +
	"\aexec_id\x18\x01 \x01(\tR\x06execId\x12\x12\n" +
	"\x04argv\x18\x02 \x03(\tR\x04argv\x12\x10\n" +
	"\x03env\x18\x03 \x03(\tR\x03env\x12\x10\n" +
	"\x03cwd\x18\x04 \x01(\tR\x03cwd\x12\x12\n" +
	"\x04user\x18\x05 \x01(\tR\x04user\x12\x14\n" +
	"\x05stdin\x18\x06 \x01(\bR\x05stdin\x12$\n" +
	"\x03tty\x18\a \x01(\v2\x12.agent.v1.TerminalR\x03tty\x12)\n" +
	"\aon_full\x18\b \x01(\x0e2\x10.agent.v1.OnFullR\x06onFull\x12\x18\n" +
	"\arelease\x18\n" +
	" \x03(\tR\arelease\x12\x1d\n" +
	"\n" +
	"timeout_ms\x18\t \x01(\x03R\ttimeoutMs\"F\n" +
	"\bTerminal\x12\x12\n" +
	"\x04cols\x18\x01 \x01(\rR\x04cols\x12\x12\n" +
	"\x04rows\x18\x02 \x01(\rR\x04rows\x12\x12\n" +
	"\x04term\x18\x03 \x01(\tR\x04term\"\xab\x01\n" +
	"\tExecEvent\x12+\n" +
	"\astarted\x18\x01 \x01(\v2\x11.agent.v1.StartedR\astarted\x12!\n" +
	"\x04gaps\x18\x02 \x03(\v2\r.agent.v1.GapR\x04gaps\x12*\n" +
	"\aoutputs\x18\x03 \x03(\v2\x10.agent.v1.OutputR\aoutputs\x12\"\n" +
	"\x04exit\x18\x04 \x01(\v2\x0e.agent.v1.ExitR\x04exit\"\x1b\n" +
	"\aStarted\x12\x10\n" +
	"\x03pid\x18\x01 \x01(\rR\x03pid\"^\n" +
	"\x06Output\x12(\n" +
	"\x06stream\x18\x01 \x01(\x0e2\x10.agent.v1.StreamR\x06stream\x12\x16\n" +
	"\x06offset\x18\x02 \x01(\x04R\x06offset\x12\x12\n" +
	"\x04data\x18\x03 \x01(\fR\x04data\"S\n" +
	"\x03Gap\x12(\n" +
	"\x06stream\x18\x01 \x01(\x0e2\x10.agent.v1.StreamR\x06stream\x12\x12\n" +
	"\x04from\x18\x02 \x01(\x04R\x04from\x12\x0e\n" +
	"\x02to\x18\x03 \x01(\x04R\x02to\"\x8c\x02\n" +
	"\x04Exit\x12\x12\n" +
	"\x04code\x18\x01 \x01(\x05R\x04code\x12\x16\n" +
	"\x06signal\x18\x02 \x01(\rR\x06signal\x12\x1b\n" +
	"\ttimed_out\x18\x03 \x01(\bR\btimedOut\x12;\n" +
	"\rstart_failure\x18\x04 \x01(\x0e2\x16.agent.v1.StartFailureR\fstartFailure\x12\x18\n" +
	"\amessage\x18\x05 \x01(\tR\amessage\x12\x1f\n" +
	"\vduration_ms\x18\x06 \x01(\x03R\n" +
	"durationMs\x12\x1f\n" +
	"\voutput_held\x18\a \x01(\bR\n" +
	"outputHeld\x12\"\n" +
	"\rout_of_memory\x18\b \x01(\bR\voutOfMemory\"r\n" +
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
	"\x03eof\x18\x04 \x01(\bR\x03eof\"C\n" +
	"\rInputResponse\x12\x1a\n" +
	"\baccepted\x18\x01 \x01(\x04R\baccepted\x12\x16\n" +
	"\x06closed\x18\x02 \x01(\bR\x06closed\"g\n" +
	"\rSignalRequest\x12\x17\n" +
	"\aexec_id\x18\x01 \x01(\tR\x06execId\x12\x16\n" +
	"\x06signal\x18\x02 \x01(\rR\x06signal\x12%\n" +
	"\x05scope\x18\x03 \x01(\x0e2\x0f.agent.v1.ScopeR\x05scope\"\x10\n" +
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
	"linkTarget\"\x84\x01\n" +
	"\fReadyRequest\x12\x12\n" +
	"\x04file\x18\x01 \x01(\tR\x04file\x12\x10\n" +
	"\x03tcp\x18\x02 \x01(\tR\x03tcp\x12\x12\n" +
	"\x04http\x18\x03 \x01(\tR\x04http\x12\x1f\n" +
	"\vinterval_ms\x18\x04 \x01(\rR\n" +
	"intervalMs\x12\x19\n" +
	"\blimit_ms\x18\x05 \x01(\rR\alimitMs\"\x0f\n" +
	"\rReadyResponse\":\n" +
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
	"\rFlushResponse*4\n" +
	"\x06OnFull\x12\x11\n" +
	"\rON_FULL_BLOCK\x10\x00\x12\x17\n" +
	"\x13ON_FULL_DROP_OLDEST\x10\x01*.\n" +
	"\x06Stream\x12\x11\n" +
	"\rSTREAM_STDOUT\x10\x00\x12\x11\n" +
	"\rSTREAM_STDERR\x10\x01*\xbc\x01\n" +
	"\fStartFailure\x12\x16\n" +
	"\x12START_FAILURE_NONE\x10\x00\x12\x1b\n" +
	"\x17START_FAILURE_NOT_FOUND\x10\x01\x12 \n" +
	"\x1cSTART_FAILURE_NOT_EXECUTABLE\x10\x02\x12\x19\n" +
	"\x15START_FAILURE_BAD_CWD\x10\x03\x12\x1a\n" +
	"\x16START_FAILURE_BAD_USER\x10\x04\x12\x1e\n" +
	"\x1aSTART_FAILURE_NO_RESOURCES\x10\x05*(\n" +
	"\x05Scope\x12\x0f\n" +
	"\vSCOPE_GROUP\x10\x00\x12\x0e\n" +
	"\n" +
	"SCOPE_TREE\x10\x01*\x81\x01\n" +
	"\bFileType\x12\x19\n" +
	"\x15FILE_TYPE_UNSPECIFIED\x10\x00\x12\x15\n" +
	"\x11FILE_TYPE_REGULAR\x10\x01\x12\x17\n" +
	"\x13FILE_TYPE_DIRECTORY\x10\x02\x12\x15\n" +
	"\x11FILE_TYPE_SYMLINK\x10\x03\x12\x13\n" +
	"\x0fFILE_TYPE_OTHER\x10\x042\xb6\a\n" +
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
	"\x04Stat\x12\x15.agent.v1.StatRequest\x1a\x16.agent.v1.StatResponse\x128\n" +
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

var file_agent_v1_agent_proto_enumTypes = make([]protoimpl.EnumInfo, 5)
var file_agent_v1_agent_proto_msgTypes = make([]protoimpl.MessageInfo, 37)
var file_agent_v1_agent_proto_goTypes = []any{
	(OnFull)(0),             // 0: agent.v1.OnFull
	(Stream)(0),             // 1: agent.v1.Stream
	(StartFailure)(0),       // 2: agent.v1.StartFailure
	(Scope)(0),              // 3: agent.v1.Scope
	(FileType)(0),           // 4: agent.v1.FileType
	(*StatusRequest)(nil),   // 5: agent.v1.StatusRequest
	(*StatusResponse)(nil),  // 6: agent.v1.StatusResponse
	(*RenewRequest)(nil),    // 7: agent.v1.RenewRequest
	(*Network)(nil),         // 8: agent.v1.Network
	(*RenewResponse)(nil),   // 9: agent.v1.RenewResponse
	(*ExecRequest)(nil),     // 10: agent.v1.ExecRequest
	(*Terminal)(nil),        // 11: agent.v1.Terminal
	(*ExecEvent)(nil),       // 12: agent.v1.ExecEvent
	(*Started)(nil),         // 13: agent.v1.Started
	(*Output)(nil),          // 14: agent.v1.Output
	(*Gap)(nil),             // 15: agent.v1.Gap
	(*Exit)(nil),            // 16: agent.v1.Exit
	(*FollowRequest)(nil),   // 17: agent.v1.FollowRequest
	(*AckRequest)(nil),      // 18: agent.v1.AckRequest
	(*AckResponse)(nil),     // 19: agent.v1.AckResponse
	(*InputRequest)(nil),    // 20: agent.v1.InputRequest
	(*InputResponse)(nil),   // 21: agent.v1.InputResponse
	(*SignalRequest)(nil),   // 22: agent.v1.SignalRequest
	(*SignalResponse)(nil),  // 23: agent.v1.SignalResponse
	(*ResizeRequest)(nil),   // 24: agent.v1.ResizeRequest
	(*ResizeResponse)(nil),  // 25: agent.v1.ResizeResponse
	(*ReleaseRequest)(nil),  // 26: agent.v1.ReleaseRequest
	(*ReleaseResponse)(nil), // 27: agent.v1.ReleaseResponse
	(*StatRequest)(nil),     // 28: agent.v1.StatRequest
	(*StatResponse)(nil),    // 29: agent.v1.StatResponse
	(*ReadyRequest)(nil),    // 30: agent.v1.ReadyRequest
	(*ReadyResponse)(nil),   // 31: agent.v1.ReadyResponse
	(*MountRequest)(nil),    // 32: agent.v1.MountRequest
	(*MountResponse)(nil),   // 33: agent.v1.MountResponse
	(*QuiesceRequest)(nil),  // 34: agent.v1.QuiesceRequest
	(*QuiesceResponse)(nil), // 35: agent.v1.QuiesceResponse
	(*FreezeRequest)(nil),   // 36: agent.v1.FreezeRequest
	(*FreezeResponse)(nil),  // 37: agent.v1.FreezeResponse
	(*ThawRequest)(nil),     // 38: agent.v1.ThawRequest
	(*ThawResponse)(nil),    // 39: agent.v1.ThawResponse
	(*FlushRequest)(nil),    // 40: agent.v1.FlushRequest
	(*FlushResponse)(nil),   // 41: agent.v1.FlushResponse
}
var file_agent_v1_agent_proto_depIdxs = []int32{
	8,  // 0: agent.v1.RenewRequest.network:type_name -> agent.v1.Network
	11, // 1: agent.v1.ExecRequest.tty:type_name -> agent.v1.Terminal
	0,  // 2: agent.v1.ExecRequest.on_full:type_name -> agent.v1.OnFull
	13, // 3: agent.v1.ExecEvent.started:type_name -> agent.v1.Started
	15, // 4: agent.v1.ExecEvent.gaps:type_name -> agent.v1.Gap
	14, // 5: agent.v1.ExecEvent.outputs:type_name -> agent.v1.Output
	16, // 6: agent.v1.ExecEvent.exit:type_name -> agent.v1.Exit
	1,  // 7: agent.v1.Output.stream:type_name -> agent.v1.Stream
	1,  // 8: agent.v1.Gap.stream:type_name -> agent.v1.Stream
	2,  // 9: agent.v1.Exit.start_failure:type_name -> agent.v1.StartFailure
	3,  // 10: agent.v1.SignalRequest.scope:type_name -> agent.v1.Scope
	4,  // 11: agent.v1.StatResponse.type:type_name -> agent.v1.FileType
	5,  // 12: agent.v1.AgentService.Status:input_type -> agent.v1.StatusRequest
	7,  // 13: agent.v1.AgentService.Renew:input_type -> agent.v1.RenewRequest
	10, // 14: agent.v1.AgentService.Exec:input_type -> agent.v1.ExecRequest
	17, // 15: agent.v1.AgentService.Follow:input_type -> agent.v1.FollowRequest
	18, // 16: agent.v1.AgentService.Ack:input_type -> agent.v1.AckRequest
	20, // 17: agent.v1.AgentService.Input:input_type -> agent.v1.InputRequest
	22, // 18: agent.v1.AgentService.Signal:input_type -> agent.v1.SignalRequest
	24, // 19: agent.v1.AgentService.Resize:input_type -> agent.v1.ResizeRequest
	26, // 20: agent.v1.AgentService.Release:input_type -> agent.v1.ReleaseRequest
	28, // 21: agent.v1.AgentService.Stat:input_type -> agent.v1.StatRequest
	30, // 22: agent.v1.AgentService.Ready:input_type -> agent.v1.ReadyRequest
	32, // 23: agent.v1.AgentService.Mount:input_type -> agent.v1.MountRequest
	34, // 24: agent.v1.AgentService.Quiesce:input_type -> agent.v1.QuiesceRequest
	36, // 25: agent.v1.AgentService.Freeze:input_type -> agent.v1.FreezeRequest
	38, // 26: agent.v1.AgentService.Thaw:input_type -> agent.v1.ThawRequest
	40, // 27: agent.v1.AgentService.Flush:input_type -> agent.v1.FlushRequest
	6,  // 28: agent.v1.AgentService.Status:output_type -> agent.v1.StatusResponse
	9,  // 29: agent.v1.AgentService.Renew:output_type -> agent.v1.RenewResponse
	12, // 30: agent.v1.AgentService.Exec:output_type -> agent.v1.ExecEvent
	12, // 31: agent.v1.AgentService.Follow:output_type -> agent.v1.ExecEvent
	19, // 32: agent.v1.AgentService.Ack:output_type -> agent.v1.AckResponse
	21, // 33: agent.v1.AgentService.Input:output_type -> agent.v1.InputResponse
	23, // 34: agent.v1.AgentService.Signal:output_type -> agent.v1.SignalResponse
	25, // 35: agent.v1.AgentService.Resize:output_type -> agent.v1.ResizeResponse
	27, // 36: agent.v1.AgentService.Release:output_type -> agent.v1.ReleaseResponse
	29, // 37: agent.v1.AgentService.Stat:output_type -> agent.v1.StatResponse
	31, // 38: agent.v1.AgentService.Ready:output_type -> agent.v1.ReadyResponse
	33, // 39: agent.v1.AgentService.Mount:output_type -> agent.v1.MountResponse
	35, // 40: agent.v1.AgentService.Quiesce:output_type -> agent.v1.QuiesceResponse
	37, // 41: agent.v1.AgentService.Freeze:output_type -> agent.v1.FreezeResponse
	39, // 42: agent.v1.AgentService.Thaw:output_type -> agent.v1.ThawResponse
	41, // 43: agent.v1.AgentService.Flush:output_type -> agent.v1.FlushResponse
	28, // [28:44] is the sub-list for method output_type
	12, // [12:28] is the sub-list for method input_type
	12, // [12:12] is the sub-list for extension type_name
	12, // [12:12] is the sub-list for extension extendee
	0,  // [0:12] is the sub-list for field type_name
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
			NumEnums:      5,
			NumMessages:   37,
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
