// Functions that the scripts of this folder share.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

/** patience is how long a script waits for an event before it fails, in milliseconds. */
export const patience = Number(process.env.PATIENCE_MS ?? 180000);

/** launch starts headless Chromium. */
export const launch = (...more) => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server", ...more], timeout: patience });

/** clientOf returns a function that sends a request with an API key, and decodes the answer. */
export function clientOf(url, keyFile) {
	const headers = { "X-API-Key": readFileSync(keyFile, "utf8").trim(), "Content-Type": "application/json" };
	return async (method, path, body) => {
		const r = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
		assert.ok(r.ok, `${method} ${path}: ${r.status}`);
		return r.status === 204 ? undefined : r.json();
	};
}

/** step runs a step of a script, and prints its time. */
export async function step(name, run) {
	const began = performance.now();
	await run();
	console.log(`${name}: ${Math.round(performance.now() - began)} ms`);
}
