// Opens a preview in headless Chromium, and attacks the page as other sites do.
// test/browser_test.go starts it:
//   node attacks.mjs URL LOGIN_LINK API_KEY_FILE SANDBOX_ID
// The sandbox has the program /srv/webserver of test/webserver.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { clientOf, launch, patience, step } from "./lib.mjs";

const [url, link, keyFile, id] = process.argv.slice(2);
const { port } = new URL(url);
const client = clientOf(url, keyFile);

/** records returns what an attack could change. */
async function records() {
	const lists = ["/v1/sandboxes", "/v1/api-keys"].map((path) => context.request.get(url + path).then((r) => r.json()));
	return JSON.stringify((await Promise.all(lists)).map((all) => all.map((e) => [e.id, e.status]).sort()));
}

/** read tries to read an answer of the page with the cookies of the browser. */
const read = (page, address) =>
	page.evaluate(
		(a) =>
			fetch(a, { credentials: "include" }).then(
				(r) => r.text(),
				(err) => err.name,
			),
		address,
	);

/** change sends requests that would change something, and returns their statuses. */
async function change(page, target) {
	const sent = [
		["POST", "/v1/api-keys", "text/plain", '{"name":"evil"}'],
		["POST", "/v1/sandboxes", "application/x-www-form-urlencoded", "memory_mb=128"],
		["POST", `/v1/sandboxes/${id}/pause`, "text/plain", ""],
	];
	const statuses = [];
	for (const [method, path, type, body] of sent) {
		const response = page.waitForResponse((r) => r.url() === target + path);
		await page.evaluate(([a, m, t, b]) => fetch(a, { method: m, mode: "no-cors", credentials: "include", headers: { "Content-Type": t }, body: b }).catch(() => {}), [target + path, method, type, body]);
		statuses.push((await response).status());
	}
	// Browsers ask first before they send these requests.
	for (const [method, path] of [["POST", "/v1/api-keys"], ["DELETE", `/v1/sandboxes/${id}`]])
		assert.equal(
			await page.evaluate(
				([a, m]) =>
					fetch(a, { method: m, credentials: "include", headers: { "Content-Type": "application/json" }, body: '{"name":"evil"}' }).then(
						(r) => r.status,
						(err) => err.name,
					),
				[target + path, method],
			),
			"TypeError",
			`${method} ${path} was sent`,
		);
	return statuses;
}

/**
 * terminal tries to start a terminal. The server accepts WebSockets of other sites, because their
 * first frame can have an API key. The cookie of the browser must not count for them. terminal
 * returns the type and code of each frame, and the status of the close.
 */
const terminal = (page, target) =>
	page.evaluate(
		(a) =>
			new Promise((done) => {
				const got = [];
				const s = new WebSocket(a);
				s.onopen = () => s.send('{"type":"start","tag":"evil"}');
				s.onmessage = (m) => {
					const frame = JSON.parse(m.data);
					got.push(frame.type, frame.code);
					if (frame.type === "started") done(got);
				};
				s.onclose = (e) => done([...got, e.code]);
			}),
		`ws${target.slice(4)}/v1/sandboxes/${id}/pty`,
	);
const refused = ["error", "unauthorized", 1008];

const browser = await launch();
const context = await browser.newContext({ locale: "en-GB" });
context.setDefaultTimeout(patience);
const evil = createServer((_, w) => w.setHeader("Content-Type", "text/html").end("<!doctype html><title>Evil</title>"));
await new Promise((done) => evil.listen(0, "127.0.0.1", done));
const targets = [url, `http://localhost:${port}`];
const sites = ["127.0.0.1", "localhost", "evil.localhost"].map((name) => `http://${name}:${evil.address().port}`);

try {
	const page = await context.newPage();
	let preview;
	await step("open a preview", async () => {
		await client("POST", `/v1/sandboxes/${id}/services`, { service_name: "web", command: "exec /srv/webserver 127.0.0.1:8001", readiness: { type: "tcp", target: "8001" } });
		await page.goto(link);
		await page.getByRole("button", { name: "Log in with this link" }).click();
		await page.getByRole("heading", { name: "Sandboxes", exact: true }).waitFor();
		await page.goto(`${url}/sandboxes/${id}/services`);
		[preview] = await Promise.all([context.waitForEvent("page"), page.getByRole("link", { name: /^:8001/ }).click()]);
		await preview.getByRole("heading", { name: "A page in the sandbox" }).waitFor();
		assert.equal(preview.url(), `http://8001-${id}.localhost:${port}/`);
		assert.equal(await preview.evaluate(() => window.opener), null);
		assert.equal(await preview.evaluate(() => document.referrer + document.cookie), "");
		await preview.evaluate(() => (document.cookie = "own=1"));
		await preview.reload();
		const headers = await preview.evaluate(() => fetch("/headers", { credentials: "include" }).then((r) => r.json()));
		assert.deepEqual(headers.Cookie, ["own=1"]);
		assert.doesNotMatch(JSON.stringify(headers), /pyro_|token=/);
	});

	// With a second cookie, the browser also has a session at localhost.
	const [session] = (await context.cookies(url)).filter((c) => c.name === "pyro_session");
	assert.ok(session?.httpOnly);
	await context.addCookies([{ name: session.name, value: session.value, url: targets[1], httpOnly: true, sameSite: "Lax" }]);
	for (const t of targets) {
		await page.goto(`${t}/`);
		await page.getByRole("heading", { name: "Sandboxes", exact: true }).waitFor();
	}
	const before = await records();

	await step("forms and requests of other sites", async () => {
		const attacker = await context.newPage();
		let withCookie = 0;
		for (const site of sites)
			for (const t of targets) {
				const what = `${site} to ${t}`;
				await attacker.goto(site);
				assert.deepEqual(await change(attacker, t), [403, 403, 403], what);
				for (const path of ["/v1/me", "/v1/api-keys", "/v1/sandboxes"]) assert.equal(await read(attacker, t + path), "TypeError", `${what}: it read ${path}`);
				for (const path of ["/v1/api-keys", "/v1/sandboxes"]) {
					await attacker.goto(site);
					const shown = attacker.waitForNavigation({ url: t + path });
					await attacker.evaluate((a) => {
						const form = Object.assign(document.createElement("form"), { method: "post", action: a, enctype: "text/plain" });
						form.append(Object.assign(document.createElement("input"), { name: '{"name":"evil","x":"', value: '"}' }));
						document.body.append(form);
						form.submit();
					}, t + path);
					const r = await shown;
					assert.equal(r.request().method(), "POST");
					assert.equal(r.status(), 403, `${what}: the form of ${path}`);
					if ((await r.request().allHeaders()).cookie?.includes("pyro_session")) withCookie++;
				}
				assert.equal(await records(), before, what);
			}
		assert.ok(withCookie > 0, "no form had the cookie: the attack proves nothing");
		await attacker.close();
	});

	await step("frames and WebSockets of other sites", async () => {
		const attacker = await context.newPage();
		for (const site of sites)
			for (const t of targets) {
				await attacker.goto(site);
				const refusal = attacker.waitForEvent("console", (m) => /frame-ancestors 'none'/.test(m.text()));
				await attacker.evaluate((a) => document.body.append(Object.assign(document.createElement("iframe"), { src: a })), `${t}/`);
				await refusal;
				assert.ok(!attacker.frames()[1].url().startsWith(t), `${site} shows ${t} in a frame`);
				assert.deepEqual(await terminal(attacker, t), refused, `${site}: a terminal of ${t}`);
			}
		await attacker.close();
	});

	await step("attacks of a preview", async () => {
		for (const t of targets) {
			for (const path of ["/v1/me", "/v1/sandboxes"]) assert.equal(await read(preview, t + path), "TypeError", `it read ${t}${path}`);
			assert.deepEqual(await change(preview, t), [403, 403, 403]);
			assert.deepEqual(await terminal(preview, t), refused, `a terminal of ${t}`);
		}
		await preview.evaluate(() => {
			document.cookie = "pyro_session=evil; domain=localhost; path=/";
			document.cookie = "pyro_session=evil; domain=localhost; path=/v1";
		});
		assert.ok(!(await context.cookies(`${targets[1]}/v1/me`)).some((c) => c.value === "evil"), "a preview has set the cookie of the page");
		assert.equal(await records(), before);
	});

	await step("a name that resolves to the server", async () => {
		const rebound = await launch("--host-resolver-rules=MAP rebound.example 127.0.0.1");
		const victim = await rebound.newContext();
		const site = `http://rebound.example:${port}`;
		await victim.addCookies([{ name: session.name, value: session.value, url: site }]);
		const attacker = await victim.newPage();
		for (const path of ["/", "/v1/me", "/v1/sandboxes", "/v1/api-keys", "/openapi.json"]) {
			const r = await attacker.goto(site + path);
			assert.equal(r.status(), 421, path);
			assert.match(await r.text(), /^\{"error":\{"code":"[a-z_]+","message":"this server does not have the name rebound\.example/);
		}
		await rebound.close();
		assert.equal(await records(), before);
	});
} catch (err) {
	console.error(err.stack);
	process.exitCode = 1;
}
await browser.close();
evil.close();
