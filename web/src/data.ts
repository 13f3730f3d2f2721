// Data of the server that the page shows. Each value is loaded once and kept while it is stale, so
// that nothing jumps. It is loaded again after a change (see events.ts), and when the page gets the
// focus. Some values change without an event, such as metrics and the programs of a sandbox. They
// are also loaded at intervals while somebody looks at them. A load that no user asked for does not
// count as use of a sandbox.
import { computed, signal, type Signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { api, forgetRequests, passiveApi, type Api, type ApiError, type Me, type Sandbox, whenUnauthorized } from "./api";
import { hidden } from "./messages";

export interface Data<T> {
	value?: T;
	error?: ApiError;
}

interface Entry {
	state: Signal<Data<unknown>>;
	load: (api: Api) => Promise<unknown>;
	users: number;
	loading?: Promise<void>;
	again: boolean;
}

const entries = new Map<string, Entry>();
const uses = signal(0); // changes when the users of an entry change

/** keysInUse returns the keys of the values that the page shows. */
export function keysInUse(): string[] {
	void uses.value; // effects run again
	return [...entries].filter(([, e]) => e.users > 0).map(([key]) => key);
}

function entryOf(key: string, load: (api: Api) => Promise<unknown>): Entry {
	let e = entries.get(key);
	if (!e) entries.set(key, (e = { state: signal({}), load, users: 0, again: false }));
	e.load = load;
	return e;
}

function refresh(e: Entry, by = passiveApi): Promise<void> {
	if (e.loading) {
		e.again = true;
		return e.loading;
	}
	e.loading = e
		.load(by)
		.then(
			(value) => (e.state.value = { value }),
			(error) => (e.state.value = { value: e.state.value.value, error }),
		)
		.then(() => {
			e.loading = undefined;
			if (e.again) {
				e.again = false;
				return refresh(e, by);
			}
		});
	return e.loading;
}

/** reload loads all values whose key starts with a prefix again, if the page shows them. */
export const reload = (prefix: string) => reloadWhere((key) => key.startsWith(prefix));

/** reloadWhere does the same for all keys for which a function returns true. */
export function reloadWhere(concerned: (key: string) => boolean): Promise<unknown> {
	const found = [...entries].filter(([key]) => concerned(key));
	for (const [key, e] of found) if (e.users === 0) entries.delete(key);
	return Promise.all(found.filter(([, e]) => e.users > 0).map(([, e]) => refresh(e)));
}

/**
 * useData returns a value of the server. every is the number of seconds between two loads, at least
 * 5; 0: no reloads at intervals.
 */
export function useData<T>(key: string, load: (api: Api) => Promise<T>, every = 0): Data<T> & { reload: () => Promise<unknown> } {
	const e = entryOf(key, load);
	// This runs right after the render. Later, an event could already have removed the unused
	// entry, and the component would watch it forever.
	useLayoutEffect(() => {
		e.users++;
		uses.value++;
		void refresh(e, api);
		const timer = every && setInterval(() => document.visibilityState === "visible" && refresh(e), Math.max(every, 5) * 1000);
		return () => {
			e.users--;
			uses.value++;
			if (timer) clearInterval(timer);
		};
	}, [e, every]);
	return { ...(e.state.value as Data<T>), reload: () => refresh(e, api) };
}

let left = 0;
document.addEventListener("visibilitychange", () => {
	if (document.visibilityState === "hidden") left = Date.now();
	else if (Date.now() - left > 1000) void reload("");
});

/**
 * activity is the interval for pages that show when a sandbox was last active. The server sends no
 * event for that.
 */
export const activity = 60;

/** me is the user: undefined while it loads, null without a session. */
export const me = signal<Me | null | undefined>(undefined);
export const canWrite = computed(() => !!me.value && me.value.role !== "viewer");
export const canManage = computed(() => !!me.value && (me.value.role === "owner" || me.value.role === "admin"));

export async function loadMe() {
	try {
		me.value = await api.me();
	} catch (err) {
		if ((err as ApiError).status !== 401) throw err;
		if ((err as ApiError).code !== "outdated") me.value = null;
	}
}

/**
 * endSession discards the user and all values, including values that still load. Then the page
 * shows the login.
 */
export function endSession() {
	forgetRequests();
	me.value = null;
	entries.clear();
}
whenUnauthorized(endSession);

/** useSandboxes returns the sandboxes without those that the user is deleting. */
export function useSandboxes(every = 0): Data<Sandbox[]> {
	const { value, error } = useData("sandboxes", (api) => api.sandboxes(), every);
	return { value: value?.filter((b) => !hidden(`sandbox/${b.id}`)), error };
}

/** nameOf returns the name that people gave a sandbox, or its ID. */
export function nameOf(b: Sandbox): string {
	return b.metadata.name?.trim() || b.id;
}

/** hrefOf returns the path of the page of a sandbox. */
export const hrefOf = (id: string) => `/sandboxes/${encodeURIComponent(id)}`;
