// Uses real programs on terminals as an agent does, through the official MCP client for TypeScript.
// FOLDER is the working directory, and the second argument lists the cases to run. The other
// arguments say how to start the server or where it listens:
//   terminals.mjs FOLDER vim,python,password stdio PROGRAM ARG...
//   terminals.mjs FOLDER python http URL TOKEN
import assert from "node:assert/strict";
import { randomBytes, scryptSync } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [folder, cases, kind, at, ...rest] = process.argv.slice(2);
const transport =
  kind === "stdio"
    ? new StdioClientTransport({ command: at, args: rest, env: process.env, stderr: "inherit" })
    : new StreamableHTTPClientTransport(new URL(at), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);

const patience = 60_000; // timeout in milliseconds; it expires only if something hangs
const heard = []; // all results from the server
const call = async (name, args = {}) => {
  const result = await client.callTool({ name, arguments: { owner: "agent", ...args } }, undefined, { timeout: 2 * patience });
  heard.push(JSON.stringify(result));
  assert.ok(!result.isError, `${name}: ${JSON.stringify(result.content)}`);
  const { structuredContent: all, content } = result;
  return "result" in all ? content[0].text : all;
};

// on starts a command in a new session, and returns functions that use this session.
const on = async (command, more = {}) => {
  const session_id = await call("pty_spawn", { command, cwd: folder, ...more });
  const tool = (name, args = {}) => call(name, { session_id, ...args });
  const s = {
    session_id,
    tool,
    type: (data, ...keys) => tool("pty_write", { data, keys }),
    // until reads output up to and including a text.
    until: async (pattern) => {
      const r = await tool("pty_read_until", { pattern, timeout_ms: patience });
      assert.ok(r.matched, `no ${JSON.stringify(pattern)} in ${JSON.stringify(r.text)}`);
      return r.text;
    },
    // prompt types a text, then reads output up to and including one of the patterns.
    prompt: async (data, ...patterns) => {
      const r = await tool("pty_prompt", { data, patterns, timeout_ms: patience });
      assert.ok(r.matched, `no ${JSON.stringify(patterns)} in ${JSON.stringify(r.text)}`);
      return r.text;
    },
    // sees waits until the screen is as expected. It checks the screen after new output, and every
    // 50 ms, because the screen's state can change without output. It consumes the output.
    sees: async (what, expected) => {
      for (const end = Date.now() + patience; ; await tool("pty_read", { timeout_ms: 50 })) {
        const screen = await tool("pty_screen");
        if (expected(screen)) return screen;
        assert.ok(Date.now() < end, `${what}: ${JSON.stringify(screen)}`);
      }
    },
    ended: async (code) => {
      const { running, exit_code, exit_reason } = await tool("pty_wait", { timeout_ms: patience });
      assert.deepEqual({ running, exit_code, exit_reason }, { running: false, exit_code: code, exit_reason: "exited" });
    },
    close: async () => {
      assert.equal(await tool("pty_close"), "ok");
      const again = await client.callTool({ name: "pty_status", arguments: { session_id, owner: "agent" } });
      assert.equal(again.structuredContent.kind, "not_found");
    },
  };
  return s;
};

const lines = (screen) => screen.text.split("\n");
// shows reports whether a screen begins with the given lines and the cursor is at the given place.
// Programs draw in several steps, so tests wait for all of this at once.
const shows = (screen, begin, row, col) => isDeepStrictEqual([lines(screen).slice(0, begin.length), screen.cursor_row, screen.cursor_col], [begin, row, col]);

const does = {
  // An editor that a shell starts: checks the editor's screen, and that the shell's screen returns.
  async vim() {
    const file = join(folder, "notes.txt");
    const s = await on("vim -Nu NONE -i NONE -n notes.txt; echo \"left with $?\"; read -r", { cols: 60, rows: 12 });
    let screen = await s.sees("an empty file", (v) => v.text.includes('"notes.txt" [New') && shows(v, ["", ...Array(10).fill("~")], 0, 0));
    assert.deepEqual([screen.cols, screen.rows, screen.alternate_screen, screen.hint], [60, 12, true, "full_screen"]);

    await s.type("ione\ntwo wörld 語\nthree");
    await s.sees("three lines", (v) => shows(v, ["one", "two wörld 語", "three", "~"], 2, 5));

    await s.type("", "up", "end", "!", "escape"); // the cursor is then on the "!", after a character of two columns
    await s.sees("a longer line", (v) => shows(v, ["one", "two wörld 語!", "three", "~"], 1, 12));

    await s.tool("pty_resize", { cols: 80, rows: 20 });
    screen = await s.sees("more lines", (v) => shows(v, ["one", "two wörld 語!", "three", ...Array(16).fill("~")], 1, 12));
    assert.deepEqual([screen.cols, screen.rows, screen.alternate_screen], [80, 20, true]);

    await s.type("dd:wq", "enter");
    screen = await s.sees("the shell's screen", (v) => !v.alternate_screen && v.text.includes("left with 0"));
    assert.ok(!screen.text.includes("~") && !screen.text.includes("three"), screen.text);
    assert.equal(readFileSync(file, "utf8"), "one\nthree\n");
    await s.type("\n");
    await s.ended(0);
    await s.close();
  },

  // An interpreter: checks a statement of several lines, a traceback, and the exit code.
  async python() {
    const s = await on("python3 -q", { env: { PYTHON_BASIC_REPL: "1", NO_COLOR: "1" } });
    await s.until(">>> ");
    let text = await s.prompt("def total(*numbers):\n    result = 0\n    for n in numbers:\n        result += n\n    return result\n\n", ">>> ");
    assert.ok(!text.includes("Error"), text);
    text = await s.prompt("print('the sum is', total(40, 2))\n", "the sum is 42\r\n");
    await s.until(">>> ");
    text = await s.prompt("total(1, 'x')\n", "TypeError: ");
    assert.match(text, /Traceback \(most recent call last\):\r\n/);
    text = await s.until(">>> ");
    assert.match(text, /unsupported operand/);
    await s.sees("a prompt", (v) => lines(v).at(-1) === ">>>" && v.hint === "at_prompt" && v.cursor_col === 4 && v.cursor_row === lines(v).length - 1);
    await s.type("raise SystemExit(7)\n");
    await s.ended(7);
    await s.close();
  },

  // A password prompt as in sudo: checks that the password is not in any result or file.
  async password() {
    const [right, wrong] = ["Tr0ub4dor", "hunter2"].map((word) => word + randomBytes(6).toString("hex"));
    const salt = randomBytes(16);
    const kept = scryptSync(right, salt, 32, { N: 16384, r: 8, p: 1 });
    writeFileSync(join(folder, "sudo.py"), sudo(salt, kept));
    const asks = "[sudo] password for agent: ";
    const s = await on("python3 sudo.py echo 'done by root'");
    for (const [word, answer] of [[wrong, "Sorry, try again."], [wrong, "Sorry, try again."], [right, "done by root"]]) {
      await s.until(asks);
      const screen = await s.sees("the question", (v) => v.hint === "asking_password");
      assert.equal(lines(screen).at(-1), asks.trim());
      assert.equal(screen.cursor_col, asks.length);
      await s.type(word); // the next call presses Enter
      await s.type("", "enter");
      await s.until(answer);
    }
    await s.ended(0);
    await s.tool("pty_status");
    await call("pty_list");
    const all = await s.tool("pty_read_at", { offset: 0 });
    assert.equal(all.text, `${asks}\r\nSorry, try again.\r\n${asks}\r\nSorry, try again.\r\n${asks}\r\ndone by root\r\n`);
    const files = [process.env.PYRO_STATE_DIR, process.env.PTY_MCP_SESSION_LOG_DIR].flatMap((d) => readdirSync(d, { recursive: true }).map((f) => join(d, f)));
    assert.ok(files.some((f) => f.endsWith("session.cast")), files.join());
    for (const word of [right, wrong]) {
      assert.ok(!heard.some((answer) => answer.includes(word)), "a result contains a password");
      for (const f of files.filter((f) => statSync(f).isFile())) assert.ok(!readFileSync(f).includes(word), `${f} contains a password`);
    }
    await s.close();

    const t = await on("python3 sudo.py echo 'done by root'");
    for (let tries = 0; tries < 3; tries++) {
      await t.until(asks);
      await t.sees("the question", (v) => v.hint === "asking_password");
      await t.type(wrong + "\n");
    }
    await t.until("sudo: 3 incorrect password attempts");
    await t.ended(1);
    await t.close();
  },
};

// sudo returns a Python program that checks a password as the real sudo does, and then runs the
// command.
const sudo = (salt, kept) => `import getpass, hashlib, hmac, os, sys

for attempt in range(3):
    word = getpass.getpass("[sudo] password for agent: ")
    made = hashlib.scrypt(word.encode(), salt=bytes.fromhex("${salt.toString("hex")}"), n=16384, r=8, p=1, dklen=32)
    if hmac.compare_digest(made, bytes.fromhex("${kept.toString("hex")}")):
        os.execvp(sys.argv[1], sys.argv[1:])
    if attempt < 2:
        print("Sorry, try again.", file=sys.stderr)
sys.exit("sudo: 3 incorrect password attempts")
`;

assert.equal(client.getServerVersion().name, "pty-mcp");
const { tools } = await client.listTools();
assert.ok(tools.some((t) => t.name === "pty_screen"), JSON.stringify(tools.map((t) => t.name)));
for (const name of cases.split(",")) await does[name]();
assert.equal(await call("pty_list"), "[]");
await client.close();
