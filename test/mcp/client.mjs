// Uses pyro as an agent does, through the official MCP client for TypeScript. SEED is the folder
// whose files are copied into the workspace, and OUT is the folder for exports. The other arguments
// say how to start pyro or where it listens:
//   client.mjs SEED OUT stdio PYRO ARG...
//   client.mjs SEED OUT http URL TOKEN
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ErrorCode, LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [seed, out, kind, at, ...rest] = process.argv.slice(2);
const connect = async () => {
  const transport =
    kind === "stdio"
      ? new StdioClientTransport({ command: at, args: rest, env: process.env, stderr: "inherit" })
      : new StreamableHTTPClientTransport(new URL(at), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } });
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  return client;
};

let client = await connect();
const told = [];
const call = async (name, args = {}) => {
  const onprogress = (p) => told.push(p.message);
  const result = await client.callTool({ name, arguments: args }, undefined, { timeout: 240_000, onprogress });
  assert.ok(!result.isError, `${name}: ${JSON.stringify(result.content)}`);
  assert.ok(result.content[0].text && !result.content[0].text.startsWith("{"), result.content[0].text);
  return result.structuredContent;
};

assert.equal(client.getServerVersion().name, "pyro");
const { tools } = await client.listTools();
assert.equal(tools.length, 55);
assert.ok(tools.every((t) => t.title && t.outputSchema)); // the client checks each result against its schema

const { workspace_id } = await call("workspace_create", { environment: "debian:12", seed_path: seed, name: "typescript", isolation: "auto" });
const on = { workspace_id };
const run = async (command) => {
  const r = await call("workspace_exec", { ...on, command, timeout_seconds: 120 });
  assert.equal(r.exit_code, 0, JSON.stringify(r));
  return r.stdout;
};
assert.equal(await run("cat hello.txt"), "hello\n");
await call("workspace_file_write", { ...on, path: "sub/ü.txt", text: "one\ntwo\n" });
await call("snapshot_create", { ...on, snapshot_name: "before" });
await call("workspace_patch_apply", { ...on, patch: "--- a/sub/ü.txt\n+++ b/sub/ü.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n" });
assert.equal((await call("workspace_file_read", { ...on, path: "sub/ü.txt" })).content, "one\nthree\n");
const diff = await call("workspace_diff", on);
assert.ok(diff.changed && diff.patch.includes("+three"), diff.patch);
await call("workspace_export", { ...on, path: "sub", output_path: `${out}/sub` });
assert.equal(readFileSync(`${out}/sub/ü.txt`, "utf8"), "one\nthree\n");

const service = await call("service_start", { ...on, service_name: "web", command: "touch ready; exec sleep 1000", readiness: { type: "file", target: "ready" } });
assert.equal(service.state, "running");
assert.equal((await call("service_list", on)).count, 1);

const { shell_id } = await call("shell_open", on);
await call("shell_write", { ...on, shell_id, input: "echo $((40 + 2))" });
let seen = "";
for (let cursor = 0; !seen.includes("42"); ) {
  const r = await call("shell_read", { ...on, shell_id, cursor, plain: true, wait_for_idle_ms: 100 });
  [seen, cursor] = [seen + r.output, r.next_cursor];
}

// The workspace, its services and its shells continue after the client disconnects.
await client.close();
client = await connect();
assert.equal((await call("service_status", { ...on, service_name: "web" })).state, "running");
await call("shell_close", { ...on, shell_id });
assert.equal((await call("service_stop", { ...on, service_name: "web" })).state, "stopped");

// A paused workspace can be resumed, and a fork starts with the same files.
assert.equal((await call("workspace_pause", on)).state, "paused");
assert.equal((await call("workspace_resume", on)).state, "started");
const forks = await call("workspace_fork", { ...on, name: "fork" });
assert.equal(forks.count, 1, JSON.stringify(forks));
const fork = { workspace_id: forks.workspaces[0].workspace_id };
assert.equal((await call("workspace_file_read", { ...fork, path: "sub/ü.txt" })).content, "one\nthree\n");
await call("workspace_delete", fork);
assert.deepEqual((await call("workspace_network_log", on)).records, []);
assert.ok((await call("vm_list_environments")).environments.some((e) => e.name === "debian:12" || e.environment === "debian:12"));
await call("workspace_export", { ...on, path: "sub", output_path: `${out}/sub`, overwrite: true });

await call("workspace_reset", { ...on, snapshot: "before" });
assert.equal(await run("cat sub/*"), "one\ntwo\n");
const missing = await client.callTool({ name: "workspace_file_read", arguments: { ...on, path: "none" } });
assert.ok(missing.isError && missing.structuredContent.kind === "not_found", JSON.stringify(missing));
await assert.rejects(client.callTool({ name: "workspace_destroy", arguments: on }), /unknown tool/);

// Progress messages restart the client's timeout, so a call can take longer than the timeout. This
// also works if the command prints nothing. On a slow host, a message can come after the timeout.
// Then a call that is six times as long has a timeout that is six times as long.
const patient = async (command, seconds, timeout) => {
  for (const times of [1, 6]) {
    const heard = [];
    const asked = { timeout: times * timeout, resetTimeoutOnProgress: true, onprogress: (p) => heard.push(p.message) };
    const args = { ...on, command: command(times * seconds), timeout_seconds: 600 };
    const r = await client.callTool({ name: "workspace_exec", arguments: args }, undefined, asked).catch((err) => {
      if (times > 1 || err.code !== ErrorCode.RequestTimeout) throw err;
    });
    if (!r) continue;
    assert.equal(r.structuredContent.exit_code, 0, JSON.stringify(r));
    return heard.join("");
  }
};
const [printed, silent] = await Promise.all([
  patient((seconds) => `for i in $(seq ${seconds}); do echo line $i; sleep 1; done`, 6, 4_000),
  patient((seconds) => `sleep ${seconds}`, 16, 13_000),
]);
assert.ok(printed.includes("line 3"), printed);
assert.match(silent, /still running/);

// The server reports its steps as log messages if the client sets a log level.
const logged = [];
client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => void logged.push(n.params));
await client.setLoggingLevel("debug");
await call("workspace_stop", on);
await call("workspace_start", on);
assert.ok(logged.every((l) => l.logger === "pyro" && typeof l.data === "string"), JSON.stringify(logged));

// If the client cancels a call, the command in the machine ends.
const cancel = new AbortController();
setTimeout(() => cancel.abort(), 500);
await assert.rejects(client.callTool({ name: "workspace_exec", arguments: { ...on, command: "exec sleep 4321", timeout_seconds: 600 } }, undefined, { signal: cancel.signal }));
for (const end = Date.now() + 180_000; (await run("pgrep -fx 'sleep 4321' || true")) !== ""; ) assert.ok(Date.now() < end, "the command is still running");

await call("workspace_delete", on);
assert.equal((await call("workspace_list")).count, 0);
assert.ok(told.length > 0, "no progress was reported");
await client.close();
