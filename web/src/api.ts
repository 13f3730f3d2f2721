// A client of the API of this server, typed by its OpenAPI document. The browser sends the cookie of
// the session by itself.
import createClient from "openapi-fetch";
import type { components, paths } from "./api/schema";
import { capital } from "./format";

/** Lists in the document can be null, but the server sends empty lists. */
type Filled<T> = [T] extends [null | undefined]
	? T
	: [T] extends [(infer E)[] | null | undefined]
		? Filled<E>[]
		: [T] extends [object]
			? { [F in keyof T]: Filled<T[F]> }
			: T;
type Schemas = Filled<components["schemas"]>;
export type Sandbox = Schemas["Sandbox"];
export type NewSandbox = Schemas["NewSandbox"];
export type File = Schemas["File"];
export type Point = Schemas["Point"];
export type Process = Schemas["Process"];
export type Command = Schemas["PyroCommandEntry"];
export type Key = Schemas["Key"];
export type NewKey = Schemas["Keys-createRequest"];
export type Me = Schemas["Me"];
export type Checkpoint = Schemas["PyroSnapshot"];
export type Diff = Schemas["PyroWorkspaceDiff"];
export type Template = Schemas["Template"];
export type Port = Schemas["Port"];
export type Service = Schemas["PyroService"];
export type NetworkRecord = Schemas["PyroNetworkRecord"];
export type Member = Schemas["AddedMember"];
export type AuditPage = Schemas["AuditPage"];
export type Role = Me["role"];
export type Limits = Schemas["Limits"];

export class ApiError extends Error {
	constructor(
		readonly status: number,
		readonly code: string,
		message: string,
		readonly hint = "",
	) {
		super(message);
	}
}

/** textOf returns an error for people: what failed, and what fixes it. */
export function textOf(err: unknown): string {
	if (err instanceof ApiError) {
		const text = capital(err.message);
		return err.hint ? `${text}. ${capital(err.hint)}.` : text;
	}
	return err instanceof Error ? err.message : String(err);
}

let onUnauthorized = () => {};
/** whenUnauthorized sets a function to call when the session has ended. */
export function whenUnauthorized(f: () => void) {
	onUnauthorized = f;
}

// An answer to a request of an ended session must neither end the next session nor show its data.
let session = 0;
const sessions = new WeakMap<Request, number>();
/** forgetRequests makes the requests that still run fail. */
export const forgetRequests = () => void session++;

let finishFirst: () => Promise<unknown> = async () => {};
/** beforeChanges sets a function that must end before a request changes something. */
export function beforeChanges(f: () => Promise<unknown>) {
	finishFirst = f;
}

const maxWait = 10_000; // ms
const maxTries = 10;
let free = 0; // when the server accepts requests again, in ms of performance.now()

/**
 * patiently sends a request. If the server refuses it because the user sends too many requests,
 * patiently waits and sends it again. All requests wait for the same time.
 */
async function patiently(send: () => Promise<Response>): Promise<Response> {
	for (let tries = 1; ; tries++) {
		for (let wait; (wait = free - performance.now()) > 0; ) await new Promise((done) => setTimeout(done, wait));
		const r = await send();
		const wait = Number(r.headers.get("Retry-After")) * 1000;
		if (r.status !== 429 || !(wait > 0 && wait <= maxWait) || tries === maxTries) return r;
		free = performance.now() + wait;
	}
}

/**
 * newClient returns a client. passive: its requests have the header of requests that do not count as
 * use. changes: its requests change something, so deletions that the user could undo end before them.
 * These deletions have keepalive, and do not wait for themselves. Other requests are sent patiently.
 */
function newClient({ passive = false, changes = false }) {
	const more = passive ? { "Pyro-Passive": "true" } : {};
	// The body of a copy of a request would be a stream, so the text of the body is sent.
	const read = async (r: Request) => {
		const body = (await r.text()) || undefined;
		return patiently(() => fetch(r, { body }));
	};
	const client = createClient<paths>({ headers: { Accept: "application/json", ...more }, credentials: "same-origin", fetch: changes ? undefined : read });
	client.use({
		async onRequest({ request }) {
			sessions.set(request, session);
			if (changes && !request.keepalive) await finishFirst();
		},
		onError({ error }) {
			if (error instanceof DOMException && error.name === "AbortError") return;
			return new ApiError(0, "unreachable", "The server does not answer", "check that pyro serve runs");
		},
		async onResponse({ request, response: r, schemaPath }) {
			if (sessions.get(request) !== session) throw new ApiError(401, "outdated", "The session has ended");
			if (r.ok) return;
			const detail = await r
				.json()
				.then((b) => b.error)
				.catch(() => undefined);
			if (r.status === 401 && !schemaPath.startsWith("/v1/auth/")) onUnauthorized();
			throw new ApiError(r.status, detail?.code ?? "", detail?.message ?? `The server answered with status ${r.status}`, detail?.hint);
		},
	});
	return client;
}

/** body returns the body of an answer. The client throws an ApiError for answers without success. */
const body = async <T>(answer: Promise<{ data?: T }>) => (await answer).data as Filled<T>;

/** openSocket opens a WebSocket of a sandbox. path is what follows the ID. */
export const openSocket = (id: string, path: string) => new WebSocket(`${location.origin.replace(/^http/, "ws")}/v1/sandboxes/${encodeURIComponent(id)}/${path}`);

/** newRequestKey returns a key for a request: the server carries out repeats with this key once. */
export const newRequestKey = () => crypto.randomUUID?.() ?? String(Math.random());

/** sendForm sends a request with a form. Unlike fetch, it reports how many bytes were sent. */
function sendForm(r: Request, form: FormData, sent?: (bytes: number) => void): Promise<Response> {
	return new Promise((done, fail) => {
		const x = new XMLHttpRequest();
		x.open(r.method, r.url);
		x.setRequestHeader("Accept", "application/json");
		x.upload.onprogress = (e) => sent?.(e.loaded);
		x.onload = () => done(new Response(x.response || null, { status: x.status, headers: { "Retry-After": x.getResponseHeader("Retry-After") ?? "" } }));
		x.onerror = () => fail(new TypeError("the request failed"));
		x.onabort = () => fail(new DOMException("the request was cancelled", "AbortError"));
		r.signal.addEventListener("abort", () => x.abort());
		if (r.signal.aborted) x.onabort(new ProgressEvent("abort"));
		else x.send(form);
	});
}

/** at returns the parameters of a path. */
const at = <P extends object>(path: P) => ({ params: { path } });

type Client = ReturnType<typeof newClient>;
/** apiOf returns the API. look only reads, which some POST requests do too. change does the rest. */
const apiOf = (look: Pick<Client, "GET" | "POST">, change: Omit<Client, "GET">) => ({
	me: () => body(look.GET("/v1/me")),
	login: (email: string, password: string) => body(change.POST("/v1/auth/login", { body: { email, password } })),
	loginByLink: (token: string) => body(change.POST("/v1/auth/link", { body: { token } })),
	logout: () => body(change.POST("/v1/auth/logout")),
	changePassword: (current_password: string | undefined, new_password: string, confirm_password: string) =>
		body(change.POST("/v1/me/password", { body: { current_password, new_password, confirm_password } })),
	teams: () => body(look.GET("/v1/teams")),
	switchTeam: (team_id: string) => body(change.POST("/v1/auth/switch-team", { body: { team_id } })),

	sandboxes: () => body(look.GET("/v1/sandboxes")),
	sandbox: (id: string) => body(look.GET("/v1/sandboxes/{id}", at({ id }))),
	create: (b: NewSandbox, key: string) => body(change.POST("/v1/sandboxes", { params: { header: { "Idempotency-Key": key } }, body: b })),
	pause: (id: string) => body(change.POST("/v1/sandboxes/{id}/pause", at({ id }))),
	resume: (id: string) => body(change.POST("/v1/sandboxes/{id}/resume", at({ id }))),
	// A request with keepalive continues when the page is closed.
	remove: (id: string) => body(change.DELETE("/v1/sandboxes/{id}", { ...at({ id }), keepalive: true })),
	processes: (id: string) => body(look.GET("/v1/sandboxes/{id}/processes", at({ id }))).then((r) => r.processes),
	terminals: (id: string) => body(look.GET("/v1/sandboxes/{id}/terminals", at({ id }))).then((r) => r.terminals),
	history: (id: string) => body(look.GET("/v1/sandboxes/{id}/history", at({ id }))).then((r) => r.entries),
	kill: (id: string, selector: string, signal: "SIGTERM" | "SIGKILL") =>
		body(change.DELETE("/v1/sandboxes/{id}/processes/{selector}", { params: { path: { id, selector }, query: { signal } } })),
	metrics: (id: string, range: "10m" | "2h" | "24h") => body(look.GET("/v1/sandboxes/{id}/metrics", { params: { path: { id }, query: { range } } })).then((r) => r.points),

	fork: (id: string, f: Schemas["Fork"], key: string) =>
		body(change.POST("/v1/sandboxes/{id}/fork", { params: { path: { id }, header: { "Idempotency-Key": key } }, body: f })),
	diff: (id: string) => body(look.GET("/v1/sandboxes/{id}/diff", at({ id }))),
	checkpoints: (id: string) => body(look.GET("/v1/sandboxes/{id}/checkpoints", at({ id }))).then((r) => r.snapshots),
	newCheckpoint: (id: string, snapshot_name: string, full: boolean) => body(change.POST("/v1/sandboxes/{id}/checkpoints", { ...at({ id }), body: { snapshot_name, full } })),
	removeCheckpoint: (id: string, name: string) => body(change.DELETE("/v1/sandboxes/{id}/checkpoints/{name}", at({ id, name }))),
	reset: (id: string, snapshot: string) => body(change.POST("/v1/sandboxes/{id}/reset", { ...at({ id }), body: snapshot ? { snapshot } : {} })),
	services: (id: string) => body(look.GET("/v1/sandboxes/{id}/services", at({ id }))).then((r) => r.services),
	startService: (id: string, s: Schemas["PyroStartServiceRequest"]) => body(change.POST("/v1/sandboxes/{id}/services", { ...at({ id }), body: s })),
	stopService: (id: string, name: string) => body(change.POST("/v1/sandboxes/{id}/services/{name}/stop", at({ id, name }))),
	serviceLogs: (id: string, name: string) => body(look.GET("/v1/sandboxes/{id}/services/{name}/logs", at({ id, name }))),
	servicePorts: (id: string) => body(look.GET("/v1/sandboxes/{id}/service-ports", at({ id }))).then((r) => r.ports),
	port: (id: string, port: number) => body(look.GET("/v1/sandboxes/{id}/ports/{port}", at({ id, port }))),
	setPort: (id: string, port: number, isPublic: boolean) => body(change.PUT("/v1/sandboxes/{id}/ports/{port}", { ...at({ id, port }), body: { public: isPublic } })),
	resetPort: (id: string, port: number) => body(change.DELETE("/v1/sandboxes/{id}/ports/{port}", at({ id, port }))),
	portLink: (id: string, port: number) => body(change.POST("/v1/sandboxes/{id}/ports/{port}/link", { ...at({ id, port }), body: {} })),
	networkLog: (id: string) => body(look.GET("/v1/sandboxes/{id}/network-log", at({ id }))).then((r) => r.records),
	egress: (id: string) => body(look.GET("/v1/sandboxes/{id}/egress", at({ id }))),

	members: (id: string) => body(look.GET("/v1/teams/{id}/members", at({ id }))),
	addMember: (id: string, email: string, role: Role) => body(change.POST("/v1/teams/{id}/members", { ...at({ id }), body: { email, role } })),
	setRole: (id: string, uid: string, role: Role) => body(change.PATCH("/v1/teams/{id}/members/{uid}", { ...at({ id, uid }), body: { role } })),
	removeMember: (id: string, uid: string) => body(change.DELETE("/v1/teams/{id}/members/{uid}", at({ id, uid }))),
	audit: (last?: AuditPage) => body(look.GET("/v1/audit-logs", { params: { query: { limit: 50, before: last?.next_before, before_id: last?.next_before_id } } })),
	quota: (id: string) => body(look.GET("/v1/teams/{id}/quotas", at({ id }))),
	hosts: () => body(look.GET("/v1/hosts")),

	list: (id: string, path: string) => body(look.POST("/v1/sandboxes/{id}/files/list", { ...at({ id }), body: { path } })).then((r) => r.entries),
	mkdir: (id: string, path: string) => body(change.POST("/v1/sandboxes/{id}/files/mkdir", { ...at({ id }), body: { path } })),
	rm: (id: string, path: string) => body(change.POST("/v1/sandboxes/{id}/files/remove", { ...at({ id }), body: { path }, keepalive: true })),
	rename: (id: string, old_path: string, new_path: string) => body(change.POST("/v1/sandboxes/{id}/files/rename", { ...at({ id }), body: { old_path, new_path } })),
	/** read returns an answer whose body is the file. */
	read: (id: string, path: string, signal?: AbortSignal) =>
		look.POST("/v1/sandboxes/{id}/files/read", { ...at({ id }), body: { path }, headers: { Accept: "*/*" }, parseAs: "stream", signal }).then((a) => a.response),
	/** write writes a file. sent is called with the number of bytes that were sent until then. */
	write: (id: string, path: string, content: Blob, options: { signal?: AbortSignal; sent?: (bytes: number) => void } = {}) => {
		const form = new FormData();
		form.append("path", path);
		form.append("file", content, "file");
		return body(change.POST("/v1/sandboxes/{id}/files/write", { ...at({ id }), body: form as never, signal: options.signal, fetch: (r: Request) => patiently(() => sendForm(r, form, options.sent)) }));
	},

	templates: () => body(look.GET("/v1/snapshots")),
	newTemplate: (t: Schemas["Snapshots-createRequest"]) => body(change.POST("/v1/snapshots", { body: t })),
	removeTemplate: (name: string) => body(change.DELETE("/v1/snapshots/{name}", at({ name }))),

	keys: () => body(look.GET("/v1/api-keys")),
	newKey: (k: NewKey) => body(change.POST("/v1/api-keys", { body: k })),
	removeKey: (id: string) => body(change.DELETE("/v1/api-keys/{id}", at({ id }))),
});

export type Api = ReturnType<typeof apiOf>;
export const api: Api = apiOf(newClient({}), newClient({ changes: true }));
const passive = newClient({ passive: true });
/** passiveApi only looks: its requests do not count as use of a sandbox, and do not resume it. */
export const passiveApi: Api = apiOf(passive, passive);
