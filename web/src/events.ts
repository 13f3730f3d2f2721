// The stream of changes, GET /v1/events. After a change by any client, the page loads the
// affected values again. A page has one stream while it is visible and somebody is logged in.
// Browsers permit only six connections to a server, for all pages together.
import { computed, effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { openSocket } from "./api";
import { keysInUse, loadMe, me, reload, reloadWhere } from "./data";
import { keyOf } from "./paths";
import { Retry } from "./retry";

interface Change {
	type: string;
	subject: string;
	data: { status?: string };
}

const hiddenTime = 15_000; // ms until a hidden page closes its stream
const gatherTime = 100; // ms, because often several changes arrive together
const newRetry = () => new Retry(2_000, 60_000);

const loggedIn = computed(() => !!me.value);
const shown = signal(document.visibilityState === "visible");

let source: EventSource | undefined;
const retry = newRetry();
let lost = false;

function close() {
	retry.stop();
	source?.close();
	source = undefined;
}

function open() {
	close();
	const stream = (source = new EventSource("/v1/events"));
	stream.addEventListener("ready", () => {
		retry.tries = 0;
		// Values that were loaded before this message may be older than the stream.
		if (lost) void reload("");
		else reloadWhere((key) => /^(sandboxes$|sandbox\/[^/]*$|keys$|members\/|quota\/)/.test(key));
		lost = false;
	});
	stream.addEventListener("gone", () => void reload(""));
	stream.onmessage = (m) => concern(JSON.parse(m.data));
	stream.onerror = () => {
		lost = true;
		if (stream.readyState !== EventSource.CLOSED) return; // the browser connects again
		close();
		retry.again(open);
		void loadMe().catch(() => {}); // the session may have ended
	};
}

effect(() => {
	if (!loggedIn.value || !shown.value) return;
	lost = false;
	retry.tries = 0;
	open();
	return close;
});

let hiding: ReturnType<typeof setTimeout> | undefined;
document.addEventListener("visibilitychange", () => {
	clearTimeout(hiding);
	if (document.visibilityState === "visible") shown.value = true;
	else hiding = setTimeout(() => (shown.value = false), hiddenTime);
});

const concerned: ((key: string) => boolean)[] = [];

function concern(c: Change) {
	if (concerned.length === 0)
		setTimeout(() => {
			const all = concerned.splice(0);
			reloadWhere((key) => all.some((f) => f(key)));
		}, gatherTime);
	concerned.push(keysOf(c), (key) => key === "audit");
	if (c.type.startsWith("member.") && c.subject === me.value?.user_id) void loadMe().catch(() => {});
}

/** keysOf returns a function that reports whether a change concerns the value with a key. */
function keysOf(c: Change): (key: string) => boolean {
	switch (c.type.split(".")[0]) {
		case "sandbox": {
			const one = `sandbox/${c.subject}`;
			// Only a running sandbox has programs and files: asking for them could resume it.
			const running = c.data.status === "running";
			return (key) => key === "sandboxes" || key === one || (running && key.startsWith(`${one}/`)) || key.startsWith("quota/");
		}
		case "template":
			return (key) => key === "templates" || key.startsWith("quota/");
		case "api_key":
			return (key) => key === "keys";
		case "member":
			return (key) => key.startsWith("members/");
	}
	return () => false;
}

/** maxFolders is the number of folders that the server watches for a page. */
const maxFolders = 64;

/** loading contains the folders that are being loaded. The value is true after another change. */
const loading = new Map<string, boolean>();

/**
 * loadFolder loads a folder again. If the folder changes during the load, loadFolder waits three
 * times as long as the load took, and loads it once more.
 */
async function loadFolder(key: string) {
	if (loading.has(key)) {
		loading.set(key, true);
		return;
	}
	do {
		loading.set(key, false);
		const began = performance.now();
		await reloadWhere((k) => k === key);
		await new Promise((done) => setTimeout(done, 3 * (performance.now() - began)));
	} while (loading.get(key));
	loading.delete(key);
}

/**
 * useActivity watches a running sandbox while the page shows it. After any client has used the
 * sandbox, the page loads the values of the sandbox again, except large and slow ones. If a program
 * changes a folder that the page shows, the page loads the folder again.
 */
export function useActivity(id: string, running: boolean) {
	const watches = running && shown.value;
	useEffect(() => {
		if (!watches) return;
		const retry = newRetry();
		let socket: WebSocket;
		let watched: string[] = []; // folders
		const watchFolders = () => {
			const prefix = keyOf(id, "");
			const paths = keysInUse().filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length)).slice(-maxFolders);
			if (socket.readyState !== WebSocket.OPEN || (paths.length ? paths.every((p) => watched.includes(p)) : !watched.length)) return;
			watched = paths;
			socket.send(JSON.stringify({ type: "folders", paths }));
		};
		let gathering: ReturnType<typeof setTimeout>;
		const stopGathering = effect(() => {
			keysInUse();
			clearTimeout(gathering);
			gathering = setTimeout(watchFolders, gatherTime);
		});
		const connect = () => {
			socket = openSocket(id, "watch");
			socket.onopen = () => {
				watched = [];
				watchFolders();
			};
			socket.onmessage = (m) => {
				retry.tries = 0;
				const { type, path } = JSON.parse(m.data);
				if (type === "folder") void loadFolder(keyOf(id, path));
				if (type !== "state") return;
				// Values that were loaded before the first message may be older than it.
				const one = `sandbox/${id}`;
				reloadWhere((key) => key === one || (key.startsWith(`${one}/`) && !/^\/(history|diff|checkpoints|metrics)/.test(key.slice(one.length))));
			};
			socket.onclose = () => retry.again(connect);
		};
		connect();
		return () => {
			retry.stop();
			stopGathering();
			clearTimeout(gathering);
			socket.onopen = socket.onmessage = socket.onclose = null;
			socket.close();
		};
	}, [id, watches]);
}
