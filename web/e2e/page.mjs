// Uses the page in headless Chromium, against a real server. test/browser_test.go starts it:
//   node page.mjs URL LOGIN_LINK SCREENSHOTS API_KEY_FILE
// It fails on an error of the page, on a violation of its Content-Security-Policy, on a request to
// another server, on a violation of axe's rules, and if a text from a sandbox runs as code.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clientOf, launch, patience, step } from "./lib.mjs";

const [url, link, shots, keyFile] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const payload = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`;
const problems = [];
const failed = []; // requests without an answer, which can explain a problem

const browser = await launch();

/** open returns a new browser context with a page whose faults are recorded. */
async function open(options = {}) {
	const context = await browser.newContext({ baseURL: url, viewport: { width: 1280, height: 800 }, colorScheme: "light", reducedMotion: "reduce", locale: "en-GB", ...options });
	context.setDefaultTimeout(patience);
	await context.exposeFunction("reportViolation", (text) => problems.push(`Content-Security-Policy: ${text}`));
	await context.addInitScript(() => document.addEventListener("securitypolicyviolation", (e) => window.reportViolation(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`)));
	context.on("request", (r) => {
		if (!r.url().startsWith(`${url}/`) && !/^(blob|data):/.test(r.url())) problems.push(`a request to ${r.url()}`);
	});
	context.on("requestfailed", (r) => failed.push(`${r.method()} ${r.url()}: ${r.failure()?.errorText}`));
	const page = await context.newPage();
	page.on("websocket", (s) => new URL(s.url()).host !== new URL(url).host && problems.push(`a WebSocket to ${s.url()}`));
	page.on("pageerror", (e) => problems.push(`an error: ${e.stack}`));
	page.on("dialog", (d) => {
		if (d.type() !== "beforeunload") problems.push(`a dialog: ${d.message()}`);
		void d.accept();
	});
	return { context, page };
}

/** refuse makes the server refuse the next request to a path, because of too many requests. */
const refuse = (page, path) =>
	page.route(path, (r) => r.fulfill({ status: 429, headers: { "Retry-After": "1" }, json: { error: { code: "rate_limited", message: "too many requests" } } }), { times: 1 });

/**
 * holdUndo makes the next deletion wait, as if the pointer were on its message from the beginning.
 * On a slow host, the time for undo can end before the script's next step.
 */
const holdUndo = (page) =>
	page.evaluate(() => {
		new MutationObserver((_, observer) => {
			const undo = [...document.querySelectorAll(".toasts button")].find((b) => b.innerText === "Undo");
			if (!undo) return;
			undo.closest(".toasts").dispatchEvent(new PointerEvent("pointerenter"));
			observer.disconnect();
		}).observe(document.body, { childList: true, subtree: true });
	});

/** check runs axe, and checks that no payload has run. */
async function check(page, where) {
	assert.equal(await page.evaluate(() => window.hacked), undefined, `${where}: a text ran as code`);
	if (!(await page.evaluate(() => !!window.axe))) await page.evaluate(axe); // it is large
	const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
	for (const v of violations) for (const n of v.nodes) problems.push(`axe, ${where}: ${v.id}: ${n.target.join(" ")}: ${n.failureSummary}`);
	const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
	assert.ok(wide <= 0, `${where}: the page is ${wide} pixels too wide`);
}

/** shot writes a screenshot, without the mouse pointer over a part of the page. */
async function shot(page, name) {
	await page.mouse.move(640, 700);
	await page.screenshot({ path: `${shots}/${name}.png` });
}
const { context, page } = await open();
const client = clientOf(url, keyFile);
const api = (method, path, data) => context.request.fetch(path, { method, data });
let id;

const besides = [];
/** beside runs a step that mostly waits, in a page of its own, while the script continues. */
async function beside(name, run) {
	const other = await open({ storageState: await context.storageState() });
	const done = step(name, () => run(other.page)).finally(() => other.context.close());
	done.catch(() => {}); // finishBesides throws it
	besides.push(done);
}
const finishBesides = () => Promise.all(besides.splice(0));

try {
	await step("log in", async () => {
		await page.goto("/");
		await page.getByLabel("Email").waitFor();
		await check(page, "login");
		await page.getByLabel("Email").fill("nobody@example.com");
		await page.getByLabel("Password").fill("wrong horse");
		await page.getByRole("button", { name: "Log in" }).click();
		await page.getByRole("alert").waitFor();
		await page.goto(link);
		await page.getByRole("button", { name: "Log in with this link" }).click();
		await page.getByRole("heading", { name: "No sandboxes yet" }).waitFor();
		assert.match(await page.getByLabel("A request that creates a sandbox").innerText(), new RegExp(`^curl .* ${url}/v1/sandboxes$`, "s"));
		await check(page, "no sandboxes");
	});

	await step("create", async () => {
		await page.getByRole("button", { name: "New sandbox" }).first().click();
		await page.getByLabel("Name", { exact: true }).fill("fix-parser");
		await page.getByRole("radio", { name: /^debian:12 / }).check();
		await check(page, "create");
		// The answer to the first request is lost. The user tries again, and gets the same sandbox.
		await page.route("**/v1/sandboxes", async (r) => {
			if (r.request().method() !== "POST") return r.fallback();
			await r.fetch({ timeout: patience });
			await r.abort();
		});
		const create = page.getByRole("button", { name: "Create sandbox" });
		await create.click();
		await page.getByRole("alert").getByText("The server does not answer").waitFor();
		await page.unroute("**/v1/sandboxes");
		await create.click();
		await page.waitForURL(/\/sandboxes\/[^/]+\/terminal$/);
		id = page.url().split("/").at(-2);
		assert.equal((await (await api("GET", "/v1/sandboxes")).json()).length, 1);
	});

	const readFile = async (path) => (await api("POST", `/v1/sandboxes/${id}/files/read`, { path })).text();
	const writeFile = (path, text) =>
		context.request.post(`/v1/sandboxes/${id}/files/write`, { multipart: { path, file: { name: "f", mimeType: "text/plain", buffer: Buffer.from(text) } } });
	const typed = (text) => page.locator(".xterm-rows").filter({ hasText: text }).first().waitFor();
	await step("type in the terminal", async () => {
		await page.locator(".xterm-rows").filter({ hasText: "#" }).first().waitFor();
		await page.keyboard.type(`cd /srv; printf '\\e[38;2;242;115;58mwarm %s\\e[0m\\n' colours; echo '${payload}'\r`);
		await typed("warm colours");
		await typed("onerror");
		await check(page, "terminal");
	});

	await step("a terminal with a screen reader", async () => {
		const reader = page.getByRole("button", { name: "Screen reader" });
		const spoken = page.locator(".xterm-accessibility-tree").filter({ hasText: "warm colours" });
		await reader.click();
		await spoken.waitFor();
		await check(page, "a terminal with a screen reader");
		await page.reload();
		await reader.and(page.locator("[aria-pressed=true]")).waitFor();
		await spoken.waitFor();
		await reader.click();
		await spoken.waitFor({ state: "detached" });
	});

	await step("reload and share the terminal", async () => {
		await page.reload();
		await typed("warm colours");
		await page.keyboard.type("echo $((6 * 7)) is the answer\r");
		await typed("42 is the answer");
		const other = await open({ storageState: await context.storageState().then((s) => ({ ...s, origins: [] })) });
		const watch = other.page;
		await watch.goto(page.url());
		await watch.locator(".xterm-rows").filter({ hasText: "42 is the answer" }).waitFor();
		await watch.getByText("You only watch. You type in another window.").waitFor();
		await page.getByTitle("1 other window or program has this terminal open").waitFor();
		await watch.keyboard.type("echo not typed\r");
		await page.locator(".xterm-helper-textarea").focus();
		await page.keyboard.type("echo seen by $((1 + 1))\r");
		await watch.locator(".xterm-rows").filter({ hasText: "seen by 2" }).waitFor();
		assert.ok(!(await watch.locator(".xterm-rows").innerText()).includes("not typed"), "a browser that watches has typed");
		const told = page.getByText("You type in Terminal 1 in another window now").waitFor(); // it disappears after some time
		await watch.getByRole("button", { name: "Type", exact: true }).click();
		await told;
		await watch.locator(".xterm-helper-textarea:focus").waitFor();
		await watch.keyboard.type("echo taken $((1 + 2))\r");
		await typed("taken 3");
		await page.getByText("You only watch. You type in another window.").waitFor();
		await page.locator(".xterm-helper-textarea").focus();
		await page.keyboard.type("echo not typed\r");
		await check(page, "a terminal in another window");
		const again = page.getByText("You type in Terminal 1 again").waitFor();
		await watch.getByRole("button", { name: "Watch", exact: true }).click(); // gives it back
		await again;
		await page.keyboard.type("echo back $((2 + 2))\r");
		await watch.locator(".xterm-rows").filter({ hasText: "back 4" }).waitFor();
		assert.ok(!(await watch.locator(".xterm-rows").innerText()).includes("not typed"), "a browser that watches has typed");
		await other.context.close();
	});

	await step("share the terminal with a program", async () => {
		const other = await open();
		const program = other.page;
		await program.goto("/");
		const key = (await (await api("GET", "/v1/api-keys")).json())[0].name;
		const told = page.getByText(`The API key ${key} has taken over Terminal 1`).waitFor();
		await program.evaluate(
			([path, token]) =>
				new Promise((ready, fail) => {
					const socket = (window.socket = new WebSocket(`ws://${location.host}${path}`));
					window.heard = [];
					const send = (f) => socket.send(JSON.stringify(f));
					window.sends = send;
					socket.onopen = () => (send({ type: "auth", token }), send({ type: "connect", tag: "term-1", holder: true }), send({ type: "hold" }));
					socket.onclose = (e) => fail(new Error(`closed with ${e.code}`));
					socket.onmessage = (e) => {
						const m = JSON.parse(e.data);
						window.heard.push(m);
						if (m.yours) ready();
					};
				}),
			[`/v1/sandboxes/${id}/pty`, readFileSync(keyFile, "utf8").trim()],
		);
		const sends = (f) => program.evaluate((f) => window.sends(f), f);
		const hears = (f) => program.waitForFunction((f) => window.heard.some((m) => Object.entries(f).every(([k, v]) => m[k] === v)), f);
		const type = (text) => sends({ type: "input", data: Buffer.from(text).toString("base64") });
		await told;
		await page.getByText(`You only watch. The API key ${key} types. Choose Type to take over.`).waitFor();
		await type("echo program $((3 + 3))\r");
		await typed("program 6");
		await program.evaluate(() => (window.heard = []));
		await page.getByRole("button", { name: "Type", exact: true }).click();
		await hears({ type: "holder", holder: "Owner", holder_type: "user", yours: false, others: 1 });
		await type("echo refused\r");
		await hears({ type: "error", code: "invalid_state", data: "Owner has taken over the terminal" });
		await page.locator(".xterm-helper-textarea:focus").waitFor();
		await page.keyboard.type("echo person $((4 + 4))\r");
		await typed("person 8");
		assert.ok(!(await page.locator(".xterm-rows").innerText()).includes("refused"));
		await page.getByRole("button", { name: "Watch", exact: true }).click();
		await hears({ type: "holder", yours: true });
		await other.context.close();
		await page.getByText("You only watch. Nobody types. Choose Type to take over.").waitFor();
		await page.getByRole("button", { name: "Type", exact: true }).click();
		await page.locator(".xterm-helper-textarea:focus").waitFor();
	});

	await step("a terminal that a program opened", async () => {
		await page.evaluate(
			(path) =>
				new Promise((ready) => {
					const socket = (window.agent = new WebSocket(`ws://${location.host}${path}`));
					socket.onopen = () => socket.send(JSON.stringify({ type: "start", tag: "agent", cmd: "cat" }));
					socket.onmessage = (e) => JSON.parse(e.data).type === "started" && ready();
				}),
			`/v1/sandboxes/${id}/pty`,
		);
		await page.getByRole("button", { name: "1 other terminal" }).click(); // it is a use of the sandbox, so the page loads the list
		await check(page, "other terminals");
		await page.getByRole("button", { name: /^agent/ }).click();
		await page.getByText("You only watch.").waitFor();
		await page.getByRole("button", { name: "Type", exact: true }).click();
		await page.locator(".xterm-helper-textarea:focus").waitFor({ state: "attached" });
		await page.keyboard.type("hello agent\r");
		await page.getByRole("tabpanel", { name: "agent" }).locator(".xterm-rows").filter({ hasText: "hello agent" }).waitFor();
		await page.getByRole("button", { name: "Close agent" }).click();
		await page.getByRole("button", { name: "Close terminal", exact: true }).click();
		await page.getByRole("tab", { name: "agent" }).waitFor({ state: "detached" });
		await page.getByRole("tab", { name: "Terminal 1" }).and(page.locator(":focus")).waitFor();
		await page.getByRole("button", { name: "1 other terminal" }).waitFor({ state: "detached" });
		await page.evaluate(() => window.agent.close());
		await page.locator(".xterm-helper-textarea").focus();
	});

	await step("a terminal that prints much", async () => {
		let unconfirmed = 0;
		let most = 0;
		let all = 0;
		const bytes = (data) => Buffer.from(data, "base64").length;
		page.on("websocket", (s) => {
			if (!s.url().endsWith("/pty")) return;
			s.on("framereceived", ({ payload }) => {
				const m = JSON.parse(payload);
				if (m.type !== "output") return;
				most = Math.max(most, (unconfirmed += bytes(m.data)));
				all += bytes(m.data);
			});
			s.on("framesent", ({ payload }) => {
				const m = JSON.parse(payload);
				if (m.type === "ack") unconfirmed -= m.bytes;
			});
		});
		await page.reload();
		await typed("person 8");
		await page.keyboard.type("yes 0123456789abcdef | head -c 8000000; echo all $((5 + 5))\r");
		await typed("all 10");
		// The browser reports frames later than it shows them.
		while (most <= 64 << 10) await page.waitForTimeout(200);
		console.log(`at most ${most} bytes were not shown`);
		assert.ok(most <= 512 << 10, `${most} bytes were on the way to the terminal`);
		await page.keyboard.type("yes 0123456789abcdef\r");
		const before = all;
		while (all < before + (4 << 20)) await page.waitForTimeout(200);
		const atKey = all;
		await page.keyboard.press("Control+c");
		await page.keyboard.type("echo over $((5 + 6))\r");
		await typed("over 11");
		console.log(`${all - atKey} bytes came after Ctrl+C`);
		assert.ok(all - atKey <= 4 << 20, `${all - atKey} bytes came after Ctrl+C`);
	});

	await step("a terminal whose connection is lost", async () => {
		await page.evaluate(() => {
			window.WebSocket = class extends WebSocket {
				constructor(to) {
					super(to);
					if (!to.endsWith("/pty")) return;
					window.latest = this;
					if (window.cut) this.close();
				}
			};
		});
		await page.getByRole("button", { name: "New terminal" }).click();
		const rows = page.getByRole("tabpanel", { name: "Terminal 2" }).locator(".xterm-rows");
		await rows.filter({ hasText: "#" }).waitFor();
		await page.keyboard.type("echo first $((1 + 1))\r");
		await rows.filter({ hasText: "first 2" }).waitFor();
		// The page loses the connection, and the server does not notice it.
		await page.evaluate(() => {
			const { latest } = window;
			const { onclose } = latest;
			latest.onmessage = latest.onclose = null;
			onclose.call(latest);
		});
		for (let n = 0; !(await rows.innerText()).includes("again 3"); n++) {
			assert.ok(n < 60, "the page does not take its terminal over again");
			await page.keyboard.press("Control+c"); // ends a line whose beginning was lost
			await page.keyboard.type("echo again $((1 + 2))\r");
			await page.waitForTimeout(250);
		}
		// While it has no connection, the shell prints more than the server keeps.
		await page.keyboard.type("until [ -e /tmp/print ]; do sleep 0.1; done; head -c 6000000 /dev/zero | tr '\\0' '\\r'; touch /tmp/printed\r");
		await rows.filter({ hasText: "touch /tmp/printed" }).waitFor();
		await page.evaluate(() => {
			window.cut = true;
			window.latest.close();
		});
		await client("POST", `/v1/sandboxes/${id}/files/mkdir`, { path: "/tmp/print" });
		while (!(await client("POST", `/v1/sandboxes/${id}/files/list`, { path: "/tmp" })).entries.some((e) => e.name === "printed")) await page.waitForTimeout(200);
		await page.evaluate(() => (window.cut = false));
		await rows.filter({ hasText: "of output skipped" }).waitFor();
		await check(page, "skipped output");
		await page.getByRole("button", { name: "Close Terminal 2" }).click();
		await page.getByRole("button", { name: "Close terminal", exact: true }).click();
		await page.getByRole("tab", { name: "Terminal 2" }).waitFor({ state: "detached" });
	});

	await step("edit a file", async () => {
		await api("POST", `/v1/sandboxes/${id}/files/mkdir`, { path: "/srv/app/src" });
		await context.request.post(`/v1/sandboxes/${id}/files/write`, {
			multipart: {
				path: "/srv/app/roman.py",
				file: {
					name: "f",
					mimeType: "text/plain",
					buffer: Buffer.from(
						`import sys\n\n\ndef roman(n: int) -> str:\n    """Return a Roman numeral."""\n    out = []\n    for value, text in ((10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):\n        while n >= value:  # the largest first\n            out.append(text)\n            n -= value\n    return "".join(out)\n\n\nif __name__ == "__main__":\n    print(roman(int(sys.argv[1])))\n`,
					),
				},
			},
		});
		await page.getByRole("link", { name: "Files" }).click();
		await page.getByRole("button", { name: "srv", exact: false }).first().click();
		await page.getByRole("button", { name: "app" }).first().click();
		await page.getByRole("button", { name: /roman\.py/ }).first().click();
		const text = page.getByRole("textbox", { name: "Text of roman.py" });
		await text.click();
		await page.keyboard.press("Control+Home");
		await page.keyboard.type("# changed in the page\n");
		await page.getByText("not saved").waitFor();
		await page.keyboard.press("Control+s");
		await page.getByText("roman.py saved").waitFor();
		for (const b of await page.getByRole("button", { name: "Dismiss" }).all()) await b.click({ timeout: 2000 }).catch(() => {}); // it also disappears after some time
		const read = await context.request.post(`/v1/sandboxes/${id}/files/read`, { data: { path: "/srv/app/roman.py" } });
		assert.match(await read.text(), /^# changed in the page\nimport sys/);
		await check(page, "files");
		await shot(page, "page-files");
		await context.request.post(`/v1/sandboxes/${id}/files/write`, { multipart: { path: `/srv/app/${payload.replaceAll("/", "")}`, file: { name: "f", mimeType: "text/plain", buffer: Buffer.from(payload) } } });
		await page.getByRole("button", { name: "Load again" }).click();
		await page.getByRole("button", { name: /^.*<img/ }).first().click();
		await page.getByText("window.hacked").first().waitFor();
		await check(page, "a hostile file");
	});

	await step("changes that are not saved", async () => {
		const unsaved = page.getByText("not saved", { exact: true });
		const text = page.getByRole("textbox", { name: "Text of notes.txt" });
		const saved = () => unsaved.waitFor({ state: "detached" });
		await writeFile("/srv/edit/notes.txt", "end\n");
		await refuse(page, "**/files/read");
		await page.getByRole("navigation", { name: "Path" }).getByRole("button", { name: "srv" }).click();
		await page.getByRole("button", { name: "directory edit", exact: true }).click();
		await page.getByRole("button", { name: "file notes.txt" }).click();
		await text.click();
		await page.keyboard.press("Control+Home");
		await page.keyboard.type("one\n");
		await unsaved.waitFor();
		await page.keyboard.press("Control+s");
		await saved();
		await text.focus();
		await page.keyboard.type("two\n");
		await unsaved.waitFor();
		await page.getByRole("button", { name: "Save", exact: true }).click();
		await saved();
		assert.equal(await readFile("/srv/edit/notes.txt"), "one\ntwo\nend\n");

		// A program changes the file in the meantime, and gives it an earlier time.
		await client("POST", `/v1/sandboxes/${id}/exec`, { cmd: "sh", args: ["-c", "cd /srv/edit; echo other >notes.txt; touch -d 2001-01-01 notes.txt"] });
		await text.focus();
		await page.keyboard.press("Control+End");
		await page.keyboard.type("three");
		await unsaved.waitFor();
		await page.keyboard.press("Control+s");
		const replace = page.getByRole("dialog", { name: "Replace notes.txt?" });
		await replace.getByRole("button", { name: "Cancel" }).click();
		assert.equal(await readFile("/srv/edit/notes.txt"), "other\n");
		await unsaved.waitFor();
		await page.getByRole("button", { name: "Save", exact: true }).click();
		await replace.getByRole("button", { name: "Replace file" }).click();
		await saved();
		assert.equal(await readFile("/srv/edit/notes.txt"), "one\ntwo\nend\nthree");

		// While the page shows something else, it keeps the text.
		await text.focus();
		await page.keyboard.type(" four");
		await unsaved.waitFor();
		await page.getByRole("link", { name: "Metrics" }).click();
		await page.getByRole("link", { name: "Files" }).click();
		await text.getByText("three four").waitFor();
		await unsaved.waitFor();
		await page.getByRole("button", { name: "Log out" }).click();
		await page.getByRole("dialog", { name: "Discard the changes?" }).getByRole("button", { name: "Cancel" }).click();
		await page.getByRole("button", { name: "Save", exact: true }).click();
		await saved();
		assert.equal(await readFile("/srv/edit/notes.txt"), "one\ntwo\nend\nthree four");

		// A text that the user has discarded does not come back.
		await text.focus();
		await page.keyboard.type(" five");
		await unsaved.waitFor();
		await page.setViewportSize({ width: 390, height: 800 });
		await page.getByRole("button", { name: "Back to the folder" }).click();
		await page.getByRole("button", { name: "Discard changes" }).click();
		await page.getByRole("button", { name: "file notes.txt" }).click();
		await text.getByText("three four").waitFor();
		await page.setViewportSize({ width: 1280, height: 800 });
		assert.ok(!(await text.innerText()).includes("five"));
		assert.equal(await unsaved.count(), 0);

		// Pasted lines get the line ends of the file.
		await writeFile("/srv/edit/dos.txt", "end\r\n");
		for (const [name, pasted, want] of [
			["notes.txt", "a\r\nb\rc\n", "a\nb\nc\none\ntwo\nend\nthree four"],
			["dos.txt", "a\nb\r\n", "a\r\nb\r\nend\r\n"],
		]) {
			await page.getByRole("button", { name: `file ${name}` }).click();
			const into = page.getByRole("textbox", { name: `Text of ${name}` });
			await into.click();
			await page.keyboard.press("Control+Home");
			await into.evaluate((e, pasted) => {
				const clipboardData = new DataTransfer();
				clipboardData.setData("text/plain", pasted);
				e.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
			}, pasted);
			await unsaved.waitFor();
			await page.keyboard.press("Control+s");
			await saved();
			assert.equal(await readFile(`/srv/edit/${name}`), want);
		}
		await page.getByRole("navigation", { name: "Path" }).getByRole("button", { name: "srv" }).click();
		await page.getByRole("button", { name: "directory app", exact: true }).click();
		await page.getByRole("button", { name: "Actions for roman.py" }).waitFor();
	});

	await step("upload and download", async () => {
		await page.locator('input[type="file"]').setInputFiles({ name: "data.csv", mimeType: "text/csv", buffer: Buffer.from("a,b\n1,2\n") });
		await page.getByRole("button", { name: /data\.csv/ }).first().waitFor();
		await page.getByRole("button", { name: "Actions for data.csv" }).click();
		const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download", exact: true }).click()]);
		assert.equal(readFileSync(await download.path(), "utf8"), "a,b\n1,2\n");
		await page.getByRole("button", { name: "New folder" }).click();
		await page.getByLabel("Name in /srv/app").fill("docs");
		await page.getByRole("button", { name: "Create folder" }).click();
		await page.getByRole("button", { name: "Actions for docs" }).waitFor();
		await page.getByRole("dialog").waitFor({ state: "detached" }); // until then, nothing behind it can have the focus
	});

	await step("folder tree", async () => {
		const folder = (name) => page.getByRole("treeitem", { name, exact: true });
		const press = async (key, name) => {
			await page.keyboard.press(key);
			await folder(name).and(page.locator(":focus")).waitFor();
		};
		const listed = [];
		const record = (r) => r.url().endsWith("/files/list") && listed.push(r.postDataJSON().path);
		page.on("request", record);
		await folder("app").and(page.locator("[aria-selected=true]")).waitFor();
		await folder("app").focus();
		await press("ArrowRight", "app"); // opens it
		await folder("docs").waitFor();
		await press("ArrowRight", "docs");
		await press("ArrowDown", "src");
		await press("ArrowLeft", "app");
		await press("s", "src");
		await page.keyboard.press("Enter");
		await page.getByRole("heading", { name: "This folder is empty" }).waitFor();
		await folder("src").and(page.locator("[aria-selected=true]")).waitFor();
		await check(page, "folder tree");
		await press("Home", "/");
		await press("End", "workspace");
		assert.ok(listed.includes("/srv/app/src") && !listed.includes("/usr"), `these folders were listed: ${listed}`);
		await folder("usr").getByText("usr").click();
		await page.getByRole("button", { name: "directory bin", exact: true }).waitFor();
		await folder("usr").locator(".tree-arrow").click(); // closes it
		await folder("usr").and(page.locator("[aria-expanded=false]")).waitFor();
		await folder("app").getByText("app").click();
		await page.getByRole("button", { name: "Actions for docs" }).waitFor();
		await page.setViewportSize({ width: 390, height: 800 });
		await page.getByRole("tree").waitFor({ state: "detached" });
		await page.setViewportSize({ width: 1280, height: 800 });
		await folder("app").waitFor();
		page.off("request", record);
	});

	await step("drop files", async () => {
		const local = mkdtempSync(join(tmpdir(), "drop-"));
		mkdirSync(`${local}/many/deep`, { recursive: true });
		for (let i = 0; i < 60; i++) writeFileSync(`${local}/many/deep/${i}.txt`, `text ${i}`);
		writeFileSync(`${local}/large`, Buffer.alloc(1 << 20, "x"));
		const session = await context.newCDPSession(page);
		const drop = async (...names) => {
			const { x, y } = await page.getByRole("region", { name: "Folder" }).boundingBox();
			const data = { items: [], files: names.map((n) => `${local}/${n}`), dragOperationsMask: 1 };
			for (const type of ["dragEnter", "dragOver", "drop"]) await session.send("Input.dispatchDragEvent", { type, x: x + 50, y: y + 300, data });
		};
		const files = async (path) => (await client("POST", `/v1/sandboxes/${id}/files/list`, { path, depth: 3 })).entries;
		const slow = (uploadThroughput) => session.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput });
		await session.send("Network.enable");
		await slow(100 << 10);
		await drop("large");
		await page.waitForFunction(() => {
			const { value = 0 } = document.querySelector(".upload progress") ?? {};
			return value > 0 && value < 1;
		});
		await check(page, "upload");
		await page.getByRole("button", { name: "Cancel upload" }).click();
		await page.getByText("Upload cancelled").waitFor();
		await page.getByRole("group", { name: "Upload" }).waitFor({ state: "detached" });
		assert.ok(!(await files("/srv/app")).some((e) => e.name === "large"), "a cancelled upload has written a file");
		await slow(-1);
		await refuse(page, "**/files/write");
		await drop("many", "large");
		await page.getByText("61 files uploaded to /srv/app").waitFor();
		await page.getByRole("button", { name: "Actions for large" }).waitFor();
		assert.equal((await files("/srv/app/many")).filter((e) => e.path.startsWith("/srv/app/many/deep/")).length, 60);
		assert.equal((await files("/srv/app")).find((e) => e.name === "large").size, 1 << 20);
		const uploaded = page.getByText("1 file uploaded to /srv/app", { exact: true });
		await uploaded.waitFor({ state: "detached" }); // the message of an earlier upload
		await drop("large"); // a file of this name exists
		await page.getByRole("button", { name: "Replace", exact: true }).click();
		await uploaded.waitFor();
		await session.detach();
	});

	// A page shows the files of this sandbox until it is paused.
	const unused = await client("POST", "/v1/sandboxes", { metadata: { name: "unused" }, memory_mb: 128, timeout_sec: 12 });
	const looks = await open({ storageState: await context.storageState() }); // a second page of a context slows the first one down
	await looks.page.goto(`/sandboxes/${unused.id}/files`);

	await step("a file that a program makes", async () => {
		await client("POST", `/v1/sandboxes/${id}/exec`, { cmd: "touch", args: ["/srv/app/made-inside"] });
		await page.getByRole("button", { name: "Actions for made-inside" }).waitFor();
		await client("POST", `/v1/sandboxes/${id}/exec`, { cmd: "rm", args: ["/srv/app/made-inside"] });
		await page.getByRole("button", { name: "Actions for made-inside" }).waitFor({ state: "detached" });

		// A program in the background renames a file, and no request uses the sandbox. After a use, the
		// page would also load the folder again.
		const script = "cd /srv/app; touch live-0; i=0; while mv live-$i live-$((i + 1)); do i=$((i + 1)); sleep 0.2; done";
		await client("POST", `/v1/sandboxes/${id}/exec`, { cmd: "sh", args: ["-c", script], background: true });
		const frames = [];
		page.on("websocket", (s) => s.url().endsWith("/watch") && s.on("framereceived", (f) => frames.push(JSON.parse(f.payload).type)));
		await page.goto(`/sandboxes/${id}/files?path=/srv/app`);
		const row = page.getByRole("button", { name: /^Actions for live-/ });
		for (let changes = 0, seen = 0, name = ""; changes < 3; await page.waitForTimeout(50)) {
			const now = await row.getAttribute("aria-label");
			if (frames.includes("state", seen)) changes = 0;
			else if (now !== name) changes++;
			seen = frames.length;
			name = now;
		}
		assert.ok(frames.includes("folder"));
		await client("POST", `/v1/sandboxes/${id}/exec`, { cmd: "sh", args: ["-c", "cd /srv/app; until rm live-*; do :; done"] });
		await row.waitFor({ state: "detached" });
	});

	await beside("a deletion that nobody undoes", async (page) => {
		await page.clock.install();
		await page.goto(`/sandboxes/${id}/files?path=/srv/app/many/deep`);
		const there = async () => (await client("POST", `/v1/sandboxes/${id}/files/list`, { path: "/srv/app/many/deep" })).entries.some((e) => e.name === "7.txt");
		await holdUndo(page);
		await page.getByRole("button", { name: "Actions for 7.txt" }).click();
		await page.getByRole("button", { name: "Delete" }).click();
		await page.getByRole("button", { name: "Actions for 7.txt" }).waitFor({ state: "detached" });
		const undo = page.getByRole("button", { name: "Undo" });
		await undo.hover();
		await undo.focus();
		await page.mouse.move(0, 0);
		await page.clock.fastForward("01:00");
		assert.ok(await undo.isVisible(), "the deletion did not wait while Undo had the focus");
		await undo.hover();
		await undo.blur();
		await page.clock.fastForward("01:00");
		assert.ok(await undo.isVisible(), "the deletion did not wait while the pointer was on Undo");
		await page.clock.pauseAt(await page.evaluate(() => Date.now() + 1000));
		await page.mouse.move(0, 0);
		await page.clock.runFor(7500);
		assert.ok((await undo.isVisible()) && (await there()), "it was deleted at once");
		await page.clock.runFor(1000);
		await undo.waitFor({ state: "detached" });
		while (await there()) await page.waitForTimeout(200);
	});

	await step("rename", async () => {
		const focused = (name) => page.locator(".entry-name:focus").filter({ hasText: name }).waitFor();
		const rename = async (name) => {
			await page.getByRole("button", { name: `Actions for ${name}` }).focus();
			await page.keyboard.press("Enter");
			await page.locator(".menu :focus").waitFor(); // the open menu focuses its first action
			await page.getByRole("button", { name: "Rename…" }).focus();
			await page.keyboard.press("Enter");
			await page.getByRole("dialog", { name: `Rename ${name}` }).waitFor();
		};
		await rename("data.csv");
		await check(page, "rename");
		await page.keyboard.press("Escape");
		await focused("data.csv");
		await rename("data.csv");
		await page.keyboard.type("docs"); // replaces the selected part, not the extension
		assert.equal(await page.getByLabel("New name").inputValue(), "docs.csv");
		await page.getByLabel("New name").fill("docs");
		await page.keyboard.press("Enter");
		await page.getByRole("alert").getByText("already exists").waitFor();
		await page.locator("input:focus").waitFor();
		await check(page, "a name that exists");
		await page.getByLabel("New name").fill("a/b");
		await page.keyboard.press("Enter");
		await page.getByRole("alert").getByText("a name has no /").waitFor();
		await page.getByLabel("New name").fill("table.csv");
		await page.keyboard.press("Enter");
		await focused("table.csv");
		assert.equal(await page.getByRole("dialog").count(), 0);

		// An open file stays open under its new path. Unsaved changes are not lost without a question.
		await page.getByRole("button", { name: /^file roman\.py/ }).click();
		await page.getByRole("textbox", { name: "Text of roman.py" }).click();
		await page.keyboard.type("# unsaved\n");
		await page.getByText("not saved").waitFor();
		await rename("roman.py");
		await page.getByLabel("New name").fill("numerals.py");
		await page.keyboard.press("Enter");
		await page.getByRole("dialog", { name: "Discard the changes?" }).getByRole("button", { name: "Cancel" }).click();
		await focused("roman.py");
		await page.getByText("not saved").waitFor();
		await rename("roman.py");
		await page.getByLabel("New name").fill("numerals.py");
		await page.keyboard.press("Enter");
		await page.getByRole("button", { name: "Discard changes" }).click();
		await focused("numerals.py");
		await page.getByRole("textbox", { name: "Text of numerals.py" }).getByText("# changed in the page").waitFor();
		await rename("numerals.py");
		await page.getByLabel("New name").fill("roman.py");
		await page.keyboard.press("Enter");
		await page.getByRole("textbox", { name: "Text of roman.py" }).waitFor();
		const read = await context.request.post(`/v1/sandboxes/${id}/files/read`, { data: { path: "/srv/app/table.csv" } });
		assert.equal(await read.text(), "a,b\n1,2\n");
		await page.setViewportSize({ width: 390, height: 800 });
		await page.getByRole("button", { name: "Back to the folder" }).click();
		await rename("table.csv");
		await check(page, "rename on a phone");
		await page.getByLabel("New name").fill("data.csv");
		await page.getByRole("button", { name: "Rename", exact: true }).click();
		await focused("data.csv");
		await page.setViewportSize({ width: 1280, height: 800 });
	});

	await step("remove", async () => {
		const row = page.getByRole("button", { name: "Actions for data.csv" });
		const names = async () => (await client("POST", `/v1/sandboxes/${id}/files/list`, { path: "/srv/app" })).entries.map((e) => e.name);
		const remove = async () => {
			await holdUndo(page);
			await row.click();
			await page.getByRole("button", { name: "Delete" }).click();
			await row.waitFor({ state: "detached" });
			assert.ok((await names()).includes("data.csv"), "it was deleted at once");
		};
		await remove();
		await page.getByText("data.csv will be deleted").waitFor();
		await check(page, "remove");
		await page.getByRole("button", { name: "Undo" }).click();
		await row.waitFor();
		// A new file of the same name must not be the one that is deleted.
		await remove();
		await page.locator('input[type="file"]').setInputFiles({ name: "data.csv", mimeType: "text/csv", buffer: Buffer.from("new\n") });
		await row.waitFor();
		const read = await context.request.post(`/v1/sandboxes/${id}/files/read`, { data: { path: "/srv/app/data.csv" } });
		assert.equal(await read.text(), "new\n");
	});

	await step("see metrics", async () => {
		await page.getByRole("link", { name: "Metrics" }).click();
		await page.getByRole("img", { name: /^Memory in the last 10m: now/ }).waitFor();
		await page.locator("canvas").first().waitFor();
		for (const range of ["2 h", "24 h"]) await page.getByRole("button", { name: range }).click();
		await page.getByRole("img", { name: /^Disk(: no data| in the last 24h)/ }).waitFor();
		await check(page, "metrics");
	});

	await finishBesides();

	await step("pause and resume", async () => {
		// A deletion that can still be undone ends before another change begins.
		const answered = [];
		page.on("response", (r) => /\/(remove|pause)$/.test(r.url()) && answered.push(r.url().split("/").at(-1)));
		await page.getByRole("link", { name: "Files" }).click();
		await page.getByRole("button", { name: "directory srv", exact: true }).click();
		await page.getByRole("button", { name: "directory app", exact: true }).click();
		await page.getByRole("button", { name: "file data.csv" }).click();
		await page.getByRole("textbox", { name: "Text of data.csv" }).click();
		await page.keyboard.type("unsaved ");
		await page.getByText("not saved", { exact: true }).waitFor();
		await holdUndo(page);
		await page.getByRole("button", { name: "Actions for docs" }).click();
		await page.getByRole("button", { name: "Delete" }).click();
		await page.getByText("docs will be deleted").waitFor();
		await page.getByRole("button", { name: "Pause" }).click();
		await page.getByRole("heading", { name: "This sandbox is paused" }).waitFor();
		assert.deepEqual(answered, ["remove", "pause"]);
		await check(page, "paused");
		await page.getByRole("link", { name: "Terminal" }).click();
		await page.getByRole("button", { name: "Resume" }).first().click();
		await typed("over 11");
		await page.keyboard.type("clear; ls --color / && python3 app/roman.py 19 && uname -sr\r");
		await typed("XIX");
		await typed("Linux");
		await shot(page, "page-terminal");
		await page.getByRole("link", { name: "Files" }).click();
		await page.getByText("not saved", { exact: true }).waitFor();
		await page.getByRole("textbox", { name: "Text of data.csv" }).getByText("unsaved").waitFor();
		await page.keyboard.press("Control+s");
		await page.getByText("not saved", { exact: true }).waitFor({ state: "detached" });
	});

	await beside("metrics of a resumed sandbox", async (page) => {
		const { id } = await client("POST", "/v1/sandboxes", { metadata: { name: "resumed" }, memory_mb: 128 });
		await client("POST", `/v1/sandboxes/${id}/pause`);
		await page.goto(`/sandboxes/${id}/metrics`);
		await page.getByRole("heading", { name: "Use of resources" }).waitFor();
		await page.getByRole("button", { name: "Resume" }).click();
		await page.getByRole("button", { name: "Pause" }).waitFor();
		await page.waitForTimeout(2000); // the change itself also loads them
		await page.waitForRequest(/\/metrics\?range=10m$/);
		await client("DELETE", `/v1/sandboxes/${id}`);
	});

	await step("looking does not count as use", async () => {
		await looks.page.getByRole("heading", { name: "This sandbox is paused" }).waitFor();
		await looks.context.close();
		await client("DELETE", `/v1/sandboxes/${unused.id}`);
	});

	await step("hostile names", async () => {
		const bad = await (await api("POST", "/v1/sandboxes", { metadata: { name: payload, [payload]: payload }, memory_mb: 128 })).json();
		await api("POST", `/v1/sandboxes/${bad.id}/exec`, { cmd: "sleep", args: ["1000", payload].slice(0, 1), background: true, tag: "sleeps" });
		await page.goto(`/sandboxes/${bad.id}`);
		await page.getByText("onerror").first().waitFor();
		await page.getByText("sleeps").first().waitFor();
		await client("POST", `/v1/sandboxes/${bad.id}/exec`, { cmd: "sh", args: ["-c", 'echo "$1"; echo failed >&2; exit 3', "sh", payload] });
		await page.getByRole("button", { name: "Refresh the commands" }).click();
		await page.getByText("Exit code 3").click();
		assert.equal(await page.getByLabel("Output", { exact: true }).textContent(), `${payload}\nfailed`);
		await check(page, "overview");
		await holdUndo(page);
		await page.getByRole("button", { name: "More actions" }).click();
		await page.getByRole("button", { name: "Delete", exact: true }).click();
		await page.getByText(`${payload} will be deleted`).waitFor();
		await page.getByRole("link", { name: /fix-parser/ }).waitFor();
		await check(page, "delete");
		const there = async () => (await api("GET", `/v1/sandboxes/${bad.id}`)).status();
		assert.equal(await there(), 200);
		await page.reload(); // leaving the page ends the time for undo
		for (const end = performance.now() + patience; (await there()) !== 404; await page.waitForTimeout(50)) assert.ok(performance.now() < end, "it was not deleted");
	});

	await step("changes, services and network", async () => {
		await page.getByRole("link", { name: /^fix-parser/ }).click();
		await context.request.post(`/v1/sandboxes/${id}/files/write`, { multipart: { path: "/workspace/notes.txt", file: { name: "f", mimeType: "text/plain", buffer: Buffer.from(`${payload}\n`) } } });
		await context.request.post(`/v1/sandboxes/${id}/files/write`, { multipart: { path: '/workspace/naïve "quoted"\tfile.txt', file: { name: "f", mimeType: "text/plain", buffer: Buffer.from("one\n") } } });
		await page.getByRole("link", { name: "Changes" }).click();
		await page.getByRole("group", { name: "Patch of notes.txt" }).getByText("+<img").waitFor();
		await page.getByRole("group", { name: "Patch of naïve \"quoted\"\tfile.txt" }).getByText("+one").waitFor(); // git writes this name with escapes
		await page.getByRole("button", { name: "New snapshot" }).click();
		await page.getByLabel("Name").fill("before-fix");
		await page.getByRole("button", { name: "Create snapshot" }).click();
		await page.getByRole("cell", { name: "before-fix", exact: true }).waitFor();
		await check(page, "changes");
		await page.getByRole("link", { name: "Services" }).click();
		await page.getByRole("button", { name: "Start a service" }).click();
		await page.getByLabel("Name").fill("web");
		await page.getByLabel("Command").fill(`echo '${payload}'; exec python3 -m http.server 8000`);
		await page.getByLabel("Port").fill("8000");
		await check(page, "new service");
		await page.getByRole("button", { name: "Start service" }).click();
		await page.getByRole("link", { name: /^:8000/ }).waitFor();
		await check(page, "services");
		const port = async () => (await api("GET", `/v1/sandboxes/${id}/ports/8000`)).json();
		const choose = async (action) => {
			await page.getByRole("button", { name: "Who may open port 8000" }).click();
			await page.getByRole("button", { name: action }).click();
		};
		await context.grantPermissions(["clipboard-read", "clipboard-write"]);
		await choose("Copy a link that works for an hour");
		await page.getByText("The link is copied").waitFor();
		const copied = new URL(await page.evaluate(() => navigator.clipboard.readText()));
		assert.equal(copied.host, new URL((await port()).url).host);
		await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true })); // as without TLS
		await choose("Copy a link that works for an hour");
		const shown = page.getByLabel("The browser does not allow this page to copy");
		assert.equal(new URL(await shown.inputValue()).host, copied.host);
		await check(page, "a link to copy");
		await page.getByRole("button", { name: "Done" }).click();
		await shown.waitFor({ state: "detached" });
		await page.evaluate(() => delete navigator.clipboard);
		await choose("Make public…");
		await check(page, "make public");
		await page.getByRole("button", { name: "Make public", exact: true }).click();
		await page.getByText("Public", { exact: true }).waitFor();
		assert.equal((await port()).public, true);
		await check(page, "a public port");
		await choose("Make private…");
		await page.getByRole("button", { name: "Make private", exact: true }).click();
		await page.getByText("Public", { exact: true }).waitFor({ state: "detached" });
		assert.equal((await port()).public, false);
		assert.equal(await page.getByRole("button", { name: "Stop web" }).innerText(), "Stop");
		await page.getByRole("button", { name: "Logs of web" }).click();
		await page.getByText("onerror").last().waitFor();
		await check(page, "logs");
		await page.getByRole("button", { name: "Close" }).click();
		await page.getByRole("link", { name: "Network" }).click();
		await page.getByText("No network").waitFor();
		assert.deepEqual(await page.locator(".facts dt").allInnerTexts(), ["Network", "Allowed addresses", "Exceptions, which are blocked"]);
		await check(page, "network");
	});

	await step("output of a program", async () => {
		const run = (script, more) => client("POST", `/v1/sandboxes/${id}/exec`, { cmd: "sh", args: ["-c", script], ...more });
		const background = (tag, script) => run(script, { background: true, tag });
		const output = page.locator(".follow");
		const shows = (text) => output.filter({ hasText: text }).waitFor();
		await run("mkfifo /tmp/next");
		await background("build", `printf '\\033[32mcompiling\\033[0m\\n%s\\n' '${payload}'; echo careful >&2; read x </tmp/next; echo got $x; exit 3`);
		await page.getByRole("link", { name: "Overview" }).click();
		await page.getByRole("button", { name: "Output of build" }).click();
		await shows("compiling");
		await output.locator(".stderr").filter({ hasText: "careful" }).waitFor();
		assert.ok(!(await output.textContent()).includes("\x1b"), "it shows sequences of terminals");
		await check(page, "output of a program");
		await run("echo more >/tmp/next");
		await shows("got more");
		await page.getByText("Ended with exit code 3").waitFor();
		await page.getByRole("button", { name: "Close" }).click();
		await page.getByRole("button", { name: "Output of build" }).waitFor({ state: "detached" });

		// A program that prints without end, and does not obey SIGTERM.
		await background("deaf", "trap '' TERM; yes deaf");
		await page.getByRole("button", { name: "Output of deaf" }).click();
		await shows("deaf");
		await page.getByRole("button", { name: "Stop program" }).click();
		await page.getByRole("button", { name: "Kill program" }).click();
		await page.getByText("Ended with exit code 137").waitFor();
		const shown = await output.evaluate((e) => e.textContent.length);
		assert.ok(shown < 200_000, `it shows ${shown} characters`);
		await page.getByRole("button", { name: "Close" }).click();
	});

	await step("fork", async () => {
		await page.getByRole("button", { name: "More actions" }).click();
		await page.getByRole("button", { name: "Fork…" }).click();
		await page.getByRole("button", { name: "Create fork" }).click();
		await page.getByRole("heading", { name: "fix-parser-fork" }).waitFor();
		await page.getByText("Fork of").waitFor();
		await page.locator("dt", { hasText: "Environment" }).waitFor();
		await page.getByRole("link", { name: "Sandboxes" }).first().click();
		await page.getByLabel("Fork:").waitFor();
		await page.locator(".boxes-head").getByText("Environment").waitFor();
		await check(page, "forks");
	});

	await step("command palette", async () => {
		const field = page.getByRole("combobox", { name: "Find a page, a sandbox or an action" });
		const press = async (key, text) => {
			await page.keyboard.press(key);
			await page.locator("[role=combobox]:focus").waitFor();
			await page.keyboard.type(text);
		};
		const status = async () => (await client("GET", `/v1/sandboxes/${id}`)).status;
		await press("Control+k", "log audit");
		await page.keyboard.press("Enter");
		await page.getByRole("heading", { name: "Audit log" }).waitFor();
		await field.waitFor({ state: "detached" });
		await press("Control+k", "nothing like this");
		await page.getByText("Nothing found").waitFor();
		await page.keyboard.press("Escape");
		await field.waitFor({ state: "detached" });
		await press("Control+k", "fix-parser");
		await page.getByRole("option").first().and(page.locator("[aria-selected=true]")).filter({ hasText: "fix-parser" }).waitFor();
		await check(page, "palette");
		await shot(page, "palette");
		await page.keyboard.press("ArrowUp"); // the last one
		await page.getByRole("option").last().and(page.locator("[aria-selected=true]")).waitFor();
		await page.keyboard.press("ArrowDown"); // the first one again
		await page.keyboard.press("Enter");
		await page.getByRole("heading", { name: "fix-parser", exact: true }).waitFor();
		for (const [text, then] of [["pause fix-parser", "Resume"], ["resume fix-parser", "Pause"]]) {
			await press("Control+k", text);
			await page.keyboard.press("Enter");
			await page.getByRole("button", { name: then, exact: true }).waitFor();
		}
		assert.equal(await status(), "running");
		await press("Control+k", "terminal fix-parser");
		await page.keyboard.press("Enter");
		await page.locator(".xterm-helper-textarea:focus").waitFor();
		await page.keyboard.press("Control+k"); // it belongs to the shell
		assert.equal(await field.count(), 0);
		await press("Control+Shift+K", "new sandbox");
		await page.keyboard.press("Enter");
		await page.getByRole("dialog", { name: "New sandbox" }).waitFor();
		await page.keyboard.press("Escape");
	});

	await step("templates", async () => {
		await page.getByRole("link", { name: "Templates" }).click();
		await page.getByRole("heading", { name: "No templates yet" }).waitFor();
		await check(page, "no templates");
		const long = `${"x".repeat(69)}😀`; // a shorter name must not end inside of a character
		const made = await (await api("POST", "/v1/sandboxes", { metadata: { name: `${long} becomes a template` }, memory_mb: 128 })).json();
		await page.goto(`/sandboxes/${made.id}`);
		await page.getByRole("button", { name: "More actions" }).click();
		await page.getByRole("button", { name: "Fork…" }).click();
		const refused = page.waitForRequest("**/fork");
		await page.route("**/fork", (r) => r.fulfill({ status: 503, json: { error: { code: "host_unavailable", message: "no fork now" } } }), { times: 1 });
		await page.getByRole("button", { name: "Create fork" }).click();
		await page.getByRole("alert").getByText("No fork now").waitFor();
		assert.equal((await refused).postDataJSON().metadata.name, `${long}-fork`);
		await page.getByRole("button", { name: "Cancel" }).click();
		await page.getByRole("button", { name: "More actions" }).click();
		await page.getByRole("button", { name: "Turn into a template…" }).click();
		await page.getByLabel("Name of the template").fill("not valid");
		await page.getByRole("button", { name: "Create template" }).click();
		await page.getByRole("alert").waitFor();
		await check(page, "new template");
		await page.getByLabel("Name of the template").fill("tools");
		await page.keyboard.press("Enter");
		await page.getByRole("cell", { name: "tools", exact: true }).waitFor();
		await check(page, "templates");
		await page.getByRole("button", { name: "New sandbox from tools" }).click();
		await check(page, "new sandbox from a template");
		await page.getByRole("button", { name: "Create sandbox" }).click();
		await page.waitForURL(/\/sandboxes\/[^/]+\/terminal$/);
		const from = page.url().split("/").at(-2);
		assert.equal((await (await api("GET", `/v1/sandboxes/${from}`)).json()).template, "tools");
		await page.getByRole("link", { name: "Templates" }).click();
		await page.getByRole("button", { name: "Delete tools" }).click();
		await page.getByRole("button", { name: "Delete template" }).click();
		await page.getByRole("alert").waitFor(); // a sandbox uses it
		await api("DELETE", `/v1/sandboxes/${from}`);
		await page.getByRole("button", { name: "Delete template" }).click();
		await page.getByRole("heading", { name: "No templates yet" }).waitFor();
		await page.getByRole("link", { name: "Go to the sandboxes" }).and(page.locator(":focus")).waitFor();
	});

	await step("members, usage and audit log", async () => {
		await page.getByRole("link", { name: "Members" }).click();
		await page.getByRole("button", { name: "Add a member" }).click();
		await page.getByLabel("Email").fill("ada@example.com");
		await page.getByRole("button", { name: "Add member" }).click();
		await page.getByText("It works once").waitFor();
		await page.getByRole("button", { name: "Done" }).click();
		await page.getByLabel("Role of ada@example.com").waitFor();
		await check(page, "members");
		for (const part of await page.locator(".who .tag, .who .team").all()) assert.ok(await part.evaluate((e) => e.scrollWidth <= e.clientWidth), "a part of the account is cut");
		await page.getByRole("link", { name: "Usage and hosts" }).click();
		await page.getByText("Online").waitFor();
		await check(page, "usage");
		await page.getByRole("link", { name: "Audit log" }).click();
		await page.getByRole("row", { name: /^Paused fix-parser .* Done / }).first().waitFor();
		await page.getByRole("row", { name: /^Added ada to the team Owner .* Done / }).waitFor();
		await page.getByRole("row", { name: /^Ran a program in fix-parser .*\(API key\)/ }).first().waitFor();
		assert.equal(await page.getByRole("row", { name: /_/ }).count(), 0, "a row has the name of an action");
		const time = page.locator("tbody time").first();
		const at = new Date(await time.getAttribute("datetime"));
		assert.ok(Math.abs(Date.now() - at) < 3600_000, `the time of an entry is ${at}`);
		assert.ok((await time.innerText()).endsWith(await time.getAttribute("title")), "the exact time of an entry is not in sight");
		await check(page, "audit log");

		// New entries push no older ones out of the list.
		let latest;
		for (let i = 0; i < 30; i++) {
			latest = await (await api("POST", "/v1/api-keys", { name: "short-lived" })).json();
			await api("DELETE", `/v1/api-keys/${latest.id}`);
		}
		// The list has all of them, with their names, although they are deleted.
		await page.getByRole("row", { name: /^Deleted the key short-lived / }).filter({ has: page.getByTitle(latest.id) }).waitFor();
		await page.getByRole("button", { name: "Show earlier entries" }).click();
		await page.getByRole("row").nth(60).waitFor();
		const rows = () => page.locator("tbody tr").evaluateAll((all) => all.map((r) => r.cells[0].innerText + r.cells[1].innerText));
		const before = await rows();
		const key = await (await api("POST", "/v1/api-keys", { name: "one-more" })).json();
		await page.getByRole("row", { name: /^Created the key one-more / }).waitFor();
		assert.deepEqual((await rows()).slice(1), before);
		await api("DELETE", `/v1/api-keys/${key.id}`);

		// After more new entries than a page has, no entries are missing between the pages.
		for (let i = 0; i < 30; i++) {
			latest = await (await api("POST", "/v1/api-keys", { name: `many-${i}` })).json();
			await api("DELETE", `/v1/api-keys/${latest.id}`);
		}
		await page.getByRole("row", { name: /^Deleted the key many-29 / }).waitFor();
		await page.getByRole("button", { name: "Show earlier entries" }).click();
		await page.getByRole("row", { name: /^Created the key many-0 / }).waitFor();
	});

	await step("API keys", async () => {
		await page.getByRole("link", { name: "API keys" }).click();
		await page.getByRole("button", { name: "New API key" }).click();
		await page.getByLabel("Name").fill(payload);
		await check(page, "new key");
		await page.getByRole("button", { name: "Create key" }).click();
		await page.getByText("Copy it now").waitFor();
		await page.getByRole("button", { name: "Done" }).click();
		await page.getByText("onerror").waitFor();
		await check(page, "keys");
		await page.getByRole("button", { name: `Delete ${payload}` }).click();
		await page.getByRole("button", { name: "Delete key" }).click();
		await page.getByRole("cell", { name: payload, exact: true }).waitFor({ state: "detached" });
		await page.getByRole("button", { name: /^Delete / }).and(page.locator(":focus")).waitFor(); // in another row
	});

	await step("heads of pages", async () => {
		const heads = [];
		for (const path of ["/", "/templates", "/keys", "/members", "/usage", "/audit", `/sandboxes/${id}`, `/sandboxes/${id}/network`]) {
			await page.goto(path);
			const title = page.locator("main h1");
			await title.filter({ hasText: /\w/ }).waitFor();
			const { y, height } = await title.boundingBox();
			const { x } = await page.locator("main h1, .crumbs").first().boundingBox();
			heads.push([x, y, height, await title.evaluate((e) => getComputedStyle(e).fontSize)].join(" "));
		}
		assert.equal(new Set(heads).size, 1, `the titles differ: ${heads.join(", ")}`);
	});

	await step("switch to another team", async () => {
		assert.equal((await api("POST", "/v1/teams", { name: `Second ${payload}` })).status(), 201);
		const turnTo = async (name) => {
			await page.getByRole("button", { name: "Account" }).click();
			const stream = page.waitForRequest(`${url}/v1/events`); // the last request of the new page
			await page.getByRole("button", { name }).click();
			await stream;
		};
		await page.goto("/");
		await page.getByRole("link", { name: /^fix-parser cl/ }).waitFor();
		await turnTo(/^Switch to Second/);
		await page.getByRole("heading", { name: "No sandboxes yet" }).waitFor();
		await check(page, "another team");
		await turnTo(/^Switch to/);
		await page.getByRole("link", { name: /^fix-parser cl/ }).waitFor();
	});

	await step("changes by other clients", async () => {
		let loads = 0;
		let streams = 0;
		page.on("load", () => loads++);
		page.on("request", (r) => r.url() === `${url}/v1/events` && streams++);
		await page.goto("/");
		const other = page.getByRole("listitem").filter({ hasText: "other-client" });
		await page.getByRole("link", { name: /^fix-parser cl/ }).waitFor();
		const made = await client("POST", "/v1/sandboxes", { metadata: { name: "other-client" }, memory_mb: 128 });
		await other.getByText("Running").waitFor();
		await client("POST", `/v1/sandboxes/${made.id}/pause`);
		await other.getByText("Paused").waitFor();
		await other.getByRole("link").click();
		await page.getByRole("heading", { name: "other-client" }).waitFor();
		await page.getByRole("button", { name: "Resume" }).waitFor();
		await client("POST", `/v1/sandboxes/${made.id}/resume`);
		await page.getByRole("button", { name: "Pause" }).waitFor();
		await client("DELETE", `/v1/sandboxes/${made.id}`);
		await page.getByText("Somebody deleted this sandbox").waitFor();
		await page.getByRole("link", { name: "API keys" }).click();
		await page.getByRole("heading", { name: "API keys" }).waitFor();
		const key = await (await api("POST", "/v1/api-keys", { name: "other-key" })).json();
		const row = page.getByRole("cell", { name: "other-key", exact: true });
		await row.waitFor();
		await api("DELETE", `/v1/api-keys/${key.id}`);
		await row.waitFor({ state: "detached" });
		assert.equal(loads, 1, "the page was loaded again");
		assert.equal(streams, 1, "the page must open one stream of events");

		// A page whose stream fails opens another one, and gets the changes in between.
		const late = await open({ storageState: await context.storageState() });
		let failed;
		const failing = new Promise((done) => (failed = done));
		await late.page.route("**/v1/events", (r) => r.fulfill({ status: 503 }).then(failed), { times: 1 });
		await late.page.goto("/");
		await late.page.getByRole("link", { name: /^fix-parser cl/ }).waitFor();
		await failing;
		const between = await client("POST", "/v1/sandboxes", { metadata: { name: "in-between" }, memory_mb: 128 });
		await late.page.getByRole("listitem").filter({ hasText: "in-between" }).waitFor();
		await client("DELETE", `/v1/sandboxes/${between.id}`);
		await late.page.getByRole("listitem").filter({ hasText: "in-between" }).waitFor({ state: "detached" });
		await late.context.close();
	});

	await step("dark, on a phone", async () => {
		await page.goto("/");
		for (const b of [
			{ metadata: { name: "review-agent" }, memory_mb: 128 },
			{ metadata: { name: "nightly-tests" }, memory_mb: 128 },
		]) {
			const made = await (await api("POST", "/v1/sandboxes", b)).json();
			if (b.metadata.name === "review-agent") await api("POST", `/v1/sandboxes/${made.id}/pause`);
		}
		await page.reload();
		await page.getByText("nightly-tests").waitFor();
		await page.evaluate(() => document.fonts.ready);
		await shot(page, "page-sandboxes");
		await page.getByRole("button", { name: "Dark" }).click();
		await check(page, "dark");
		const phone = await open({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2, colorScheme: "dark", storageState: await context.storageState() });
		const small = phone.page;
		await small.goto("/");
		await small.getByText("nightly-tests").waitFor();
		await check(small, "sandboxes on a phone");
		const fork = small.getByRole("listitem").filter({ hasText: "fix-parser-fork" });
		const left = async (part) => (await fork.locator(part).boundingBox()).x;
		assert.equal(await left(".status"), await left(".branch"));
		await shot(small, "page-phone");
		await small.getByRole("button", { name: "Menu" }).click();
		await small.getByRole("link", { name: "API keys" }).click();
		await small.getByRole("heading", { name: "API keys" }).waitFor();
		await small.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
		const cell = small.locator("tbody td").nth(1);
		assert.equal(await cell.evaluate((e) => getComputedStyle(e, "::before").content), '"Key"');
		await check(small, "keys on a phone");
		await small.getByRole("link", { name: "Sandboxes", exact: true }).click();
		await small.getByText("nightly-tests").waitFor();
		await small.getByRole("link", { name: "pyro, to all sandboxes" }).waitFor();
		for (const part of ["", "/terminal", "/files?path=/srv/app", "/changes", "/services", "/metrics"]) {
			await small.goto(`/sandboxes/${id}${part}`);
			await small.getByRole("link", { name: "Files" }).waitFor();
			await small.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
			assert.ok(await small.getByRole("link", { name: "Sandboxes", exact: true }).isVisible(), `${part} on a phone: no way back`);
			assert.ok(await small.locator("main h1").evaluate((e) => e.scrollWidth <= e.clientWidth), `${part} on a phone: the name is cut`);
			if (part === "/terminal") await small.getByRole("button", { name: "Type", exact: true, pressed: true }).waitFor(); // its colours would change during the check
			await check(small, `${part} on a phone`);
			for (const b of await small.locator("td.end .button").all()) {
				assert.match(await b.innerText(), /\w/, `${part} on a phone: an action has no word`);
				assert.ok((await b.boundingBox()).height >= 40, `${part} on a phone: an action is too small for a finger`);
			}
			const tab = await small.locator(".tabs [aria-current]").boundingBox();
			assert.ok(tab.x >= 0 && tab.x + tab.width <= 390, `${part} on a phone: its tab is out of sight`);
		}
		await phone.context.close();
	});

	await step("delete with the keyboard", async () => {
		await page.goto("/");
		const link = page.getByRole("link", { name: /^fix-parser cl/ });
		await link.focus();
		await page.keyboard.press("Enter");
		await page.getByRole("heading", { name: "fix-parser", exact: true }).waitFor();
		await page.getByRole("button", { name: "More actions" }).focus();
		await page.keyboard.press("Enter");
		await page.locator(".menu button:focus").waitFor();
		await page.keyboard.press("ArrowUp");
		await page.evaluate(() => { // a user who is as fast as the page
			new MutationObserver((_, observer) => {
				const undo = [...document.querySelectorAll(".toasts button")].find((b) => b.innerText === "Undo");
				if (!undo) return;
				undo.focus();
				observer.disconnect();
			}).observe(document.body, { childList: true, subtree: true });
		});
		await page.keyboard.press("Enter");
		await page.waitForURL(/\/$/);
		await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))); // all of the page's effects have run
		await page.getByRole("button", { name: "Undo" }).and(page.locator(":focus")).waitFor();
		await link.waitFor({ state: "detached" });
		await page.keyboard.press("Enter");
		await link.waitFor();
		await page.getByRole("button", { name: "More actions for fix-parser", exact: true }).click();
		await page.getByRole("button", { name: "Delete", exact: true }).click();
		await link.waitFor({ state: "detached" });
		await page.getByRole("button", { name: /^More actions for / }).and(page.locator(":focus")).waitFor(); // in another row
		await page.mouse.move(0, 0); // the pointer would stop the time for undo
	});

	await finishBesides();

	await step("load", async () => {
		const fresh = await open({ storageState: await context.storageState() });
		const session = await fresh.context.newCDPSession(fresh.page);
		await session.send("Network.enable");
		let bytes = 0;
		session.on("Network.loadingFinished", (e) => (bytes += e.encodedDataLength));
		const start = performance.now();
		await fresh.page.goto("/");
		await fresh.page.getByRole("link", { name: /nightly-tests/ }).waitFor();
		const usable = Math.round(performance.now() - start);
		await fresh.page.waitForTimeout(1000); // the stream of events never ends
		console.log(`first load: ${Math.round(bytes / 1024)} KB compressed, usable after ${usable} ms`);
		assert.ok(bytes < 250 << 10, `the first load has ${bytes} bytes`);
		await fresh.context.close();
	});

	await step("log out and in", async () => {
		const password = "correct horse";
		const change = async (action, fields) => {
			await page.getByRole("button", { name: "Account" }).click();
			await page.getByRole("button", { name: `${action}…` }).click();
			for (const [name, text] of Object.entries(fields)) await page.getByLabel(name, { exact: true }).fill(text);
		};
		await page.goto("/");
		await change("Set a password", { "New password": password, "New password again": "something else" });
		await check(page, "set a password");
		await page.getByRole("button", { name: "Set password" }).click();
		await page.getByText("The passwords differ").waitFor();
		await page.getByLabel("New password again").fill(password);
		await page.getByRole("button", { name: "Set password" }).click();
		await page.getByLabel("Email").waitFor(); // the new password has ended the session
		// Without frames, effects run late: after the first message of the stream of changes.
		await page.evaluate(() => (window.requestAnimationFrame = () => 0));
		const login = async () => {
			await page.locator("input[type=email]:focus").waitFor(); // the page sets the focus late too
			await page.getByLabel("Email").fill("owner@localhost");
			await page.getByLabel("Password").fill(password);
			await page.getByRole("button", { name: "Log in" }).click();
			await page.getByRole("link", { name: /nightly-tests/ }).waitFor();
		};
		const logout = async () => {
			await page.getByRole("button", { name: "Log out" }).click();
			await page.getByLabel("Email").waitFor();
		};
		for (let i = 0; i < 2; i++) {
			await login();
			await logout();
		}
		// If the request fails, the session goes on, and the page says so.
		await login();
		await page.route("**/v1/auth/logout", (r) => r.fulfill({ status: 503, json: { error: { code: "unavailable", message: "no log out now" } } }), { times: 1 });
		await page.getByRole("button", { name: "Log out" }).click();
		await page.getByText("No log out now").waitFor();
		assert.ok(await page.getByRole("link", { name: /nightly-tests/ }).isVisible(), "the page has logged out");
		await logout();
		// An answer to a request of the ended session comes late, and must not end the next one.
		await login();
		let answer;
		const answered = new Promise((done) => page.route("**/v1/audit-logs*", (r) => (answer = () => done(r.fulfill({ status: 401, json: {} }))), { times: 1 }));
		await page.getByRole("link", { name: "Audit log" }).click();
		await page.getByRole("heading", { name: "Audit log" }).waitFor();
		await logout();
		await login();
		answer();
		await answered;
		await page.waitForTimeout(500);
		assert.ok(await page.getByRole("link", { name: /nightly-tests/ }).isVisible(), "a late answer has ended the session");
	});
} catch (err) {
	problems.push(err.stack, ...failed.slice(-20));
	await shot(page, "failed").catch(() => {});
}
await browser.close();
for (const p of new Set(problems)) console.error(p);
process.exitCode = problems.length ? 1 : 0;
