// Uses the page with long names, many sandboxes, a large folder and several terminals, in a
// window of 360 pixels too. test/browser_test.go starts it:
//   node limits.mjs URL LOGIN_LINK API_KEY_FILE
import assert from "node:assert/strict";
import { clientOf, launch, patience, step } from "./lib.mjs";

const [url, link, keyFile] = process.argv.slice(2);
const client = clientOf(url, keyFile);
const long = "long-name ".repeat(20).trim();
const wide = { width: 1280, height: 800 };
const narrow = { width: 360, height: 640 };

const browser = await launch();
const context = await browser.newContext({ baseURL: url, viewport: wide, reducedMotion: "reduce", locale: "en-GB" });
context.setDefaultTimeout(patience);
const page = await context.newPage();
let failure;
page.on("pageerror", (e) => (failure ??= e));

/** fits checks in both sizes of the window that the page is not wider than it. */
async function fits(where) {
	for (const size of [narrow, wide]) {
		await page.setViewportSize(size);
		const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
		assert.ok(over <= 0, `${where}: at ${size.width} pixels, the page is ${over} pixels too wide`);
	}
}

/** few checks that the document has only the rows in sight and some more. */
async function few(row) {
	const n = await page.locator(row).count();
	assert.ok(n > 10 && n < 80, `there are ${n} rows`);
}

try {
	await page.goto(link);
	await page.getByRole("button", { name: "Log in with this link" }).click();
	await page.getByRole("heading", { name: "No sandboxes yet" }).waitFor();
	await fits("no sandboxes");
	const box = await client("POST", "/v1/sandboxes", { metadata: { name: long }, template: "debian:12", memory_mb: 512 });
	const path = `/sandboxes/${box.id}`;
	const run = (script) => client("POST", `/v1${path}/exec`, { cmd: "sh", args: ["-c", script] });

	await step("a name of 200 characters", async () => {
		await page.getByRole("link", { name: long }).waitFor();
		await fits("list");
		await run(`exit 0 # ${long}`);
		for (const part of ["", "/files", "/changes", "/services", "/network", "/metrics"]) {
			await page.goto(path + part);
			await page.getByRole("heading", { name: long }).waitFor();
			await fits(part);
		}
	});

	await step("1,000 sandboxes", async () => {
		await page.route("**/v1/sandboxes", async (r) => {
			const [one] = await (await r.fetch()).json();
			await r.fulfill({ json: Array.from({ length: 1000 }, (_, i) => ({ ...one, id: `cl-${i}`, metadata: { name: `box-${i}` } })) });
		});
		await page.goto("/");
		await page.getByRole("link", { name: /^box-0 / }).waitFor();
		await few(".box");
		await page.getByRole("link", { name: /^box-1 / }).focus();
		await page.keyboard.press("End");
		await page.locator('.box[aria-posinset="1000"] a:focus').waitFor();
		await few(".box");
		await page.evaluate(() => scrollTo(0, 0));
		await page.getByRole("link", { name: /^box-1 / }).waitFor();
		await page.locator('.box[aria-posinset="1000"] a:focus').waitFor(); // the row with the focus stays
		await few(".box");
		await page.getByLabel("Filter by name, ID or environment").fill("box-77");
		await page.getByRole("link", { name: /^box-1 / }).waitFor({ state: "detached" });
		assert.equal(await page.getByRole("main").getByRole("listitem").count(), 11);
		await fits("1,000 sandboxes");
		await page.unroute("**/v1/sandboxes");
	});

	await step("10,000 files", async () => {
		await run("mkdir /srv/many && cd /srv/many && seq 10000 | xargs touch");
		await page.goto(`${path}/files?path=/srv/many`);
		const row = (name) => page.getByRole("button", { name: new RegExp(`^file ${name} `) });
		await row("1").waitFor();
		await few(".entry");
		await row("1").focus();
		await page.keyboard.press("End");
		await page.locator(".entry-name:focus").filter({ hasText: "10000" }).waitFor();
		assert.equal(await page.locator(".entry:focus-within").getAttribute("aria-posinset"), "10001"); // includes the folder above
		await page.keyboard.press("ArrowUp");
		await page.locator(".entry-name:focus").filter({ hasText: "9999" }).waitFor();
		await few(".entry");
		await fits("10,000 files");
		await page.getByLabel("Find in 10000 entries").fill("777");
		await row("777").waitFor();
		assert.equal(await page.locator(".entry").count(), 20); // includes the folder above
	});

	await step("a binary file and a large one", async () => {
		await run("mkdir /srv/odd && cd /srv/odd && head -c 100 /dev/zero >zeros && yes text | head -c 3000000 >large");
		await page.goto(`${path}/files?path=/srv/odd`);
		for (const [name, why] of [["zeros", "It is a binary file"], ["large", "It is larger than 2 MB"]]) {
			await page.getByRole("button", { name: `file ${name}` }).click();
			await page.getByRole("heading", { name: `The editor can't open ${name}` }).waitFor();
			await page.getByText(why).waitFor();
		}
	});

	await step("several terminals", async () => {
		const rows = (tab) => page.getByRole("tabpanel", { name: tab }).locator(".xterm-rows");
		const shows = (tab, text) => rows(tab).filter({ hasText: text }).waitFor();
		const type = (text) => page.keyboard.type(`${text}\r`);
		await page.goto(`${path}/terminal`);
		await shows("Terminal 1", "#");
		await type("echo first $((1 + 1))");
		await shows("Terminal 1", "first 2");
		await page.getByRole("button", { name: "New terminal" }).click();
		await shows("Terminal 2", "#");
		await type("until [ $(stty size | cut -d' ' -f2) -lt 60 ]; do sleep 0.1; done; echo narrow $((1 + 1))");
		await page.setViewportSize(narrow); // the terminal gets fewer columns
		await shows("Terminal 2", "narrow 2");
		await page.setViewportSize(wide);
		await page.getByRole("button", { name: "Close Terminal 2" }).click();
		await page.getByRole("button", { name: "Close terminal", exact: true }).click();
		await page.getByRole("tab", { name: "Terminal 2" }).waitFor({ state: "detached" });
		await shows("Terminal 1", "first 2");
	});

	await step("a terminal that prints 50 MB", async () => {
		const session = await context.newCDPSession(page);
		const heap = async () => {
			await session.send("HeapProfiler.collectGarbage");
			return (await session.send("Runtime.getHeapUsage")).usedSize / 2 ** 20;
		};
		const shows = (text) => page.locator(".xterm-rows").filter({ hasText: text }).first().waitFor();
		const frame = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
		const timed = async (run) => {
			const began = performance.now();
			await run();
			return performance.now() - began;
		};
		const before = await heap();
		await page.locator(".xterm-helper-textarea").focus();
		let over = false;
		await page.keyboard.type("clear; yes 0123456789abcdef | head -c 50000000; echo all $((1 + 1))\r");
		const frames = [];
		const end = shows("all 2").then(() => (over = true));
		while (!over) frames.push(await timed(frame));
		await end;
		const grown = (await heap()) - before;
		// The output that a program printed before Ctrl+C must not keep the shell waiting.
		await page.keyboard.type("yes\r");
		await shows("y");
		await page.waitForTimeout(2000);
		const stopped = await timed(async () => {
			await page.keyboard.press("Control+c");
			await page.keyboard.type("echo stopped $((1 + 1))\r");
			await shows("stopped 2");
		});
		const slowest = Math.max(...frames);
		console.log(`the page answered within ${Math.round(slowest)} ms, and grew by ${Math.round(grown)} MB. Ctrl+C worked after ${Math.round(stopped)} ms`);
		assert.ok(frames.length > 10 && slowest < 30000, `${frames.length} answers, the slowest after ${slowest} ms`);
		assert.ok(grown < 64, `the page has grown by ${grown} MB`);
		await session.detach();
	});

	await step("stop a program", async () => {
		await client("POST", `/v1${path}/exec`, { cmd: "sleep", args: ["1000"], background: true, tag: "sleeps" });
		await page.goto(path);
		await page.getByRole("button", { name: "Stop sleeps" }).click();
		await page.getByRole("button", { name: "Stop program" }).click();
		await page.getByRole("cell", { name: "sleeps", exact: true }).waitFor({ state: "detached" });
	});
	assert.ifError(failure);
} finally {
	await browser.close();
}
