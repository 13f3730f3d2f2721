import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { Box, CornerDownRight, Ellipsis, GitFork, Layers, Pause, Play, Plus, SearchX, SquareTerminal, Trash } from "lucide-preact";
import { api, newRequestKey, textOf, type Sandbox } from "../api";
import { activity, canWrite, hrefOf, nameOf, reload, useSandboxes } from "../data";
import { ago, cores, exact, megabytes } from "../format";
import { deleteLater, showError } from "../messages";
import { go } from "../router";
import { Rows, type RowProps } from "../rows";
import { ask, Bone, Button, Empty, Field, Menu, Notice, PageHead, Panel, SearchField, Segments, Snippet, Status } from "../ui";
import { Create } from "./create";

type Filter = "all" | "running" | "paused" | "other";
const filterOf = (b: Sandbox): Filter => (b.status === "running" || b.status === "paused" ? b.status : "other");

export function Sandboxes() {
	const { value: all, error } = useSandboxes(activity);
	const [creating, setCreating] = useState(false);
	const [text, setText] = useState("");
	const [filter, setFilter] = useState<Filter>("all");
	const wanted = text.trim().toLowerCase();
	const shown = all?.filter(
		(b) =>
			(filter === "all" || filterOf(b) === filter) &&
			[b.id, b.template, ...Object.entries(b.metadata).flat()].some((t) => t.toLowerCase().includes(wanted)),
	);
	const count = (f: Filter) => all?.filter((b) => f === "all" || filterOf(b) === f).length;
	const create = canWrite.value && (
		<Button kind="primary" icon={Plus} onClick={() => setCreating(true)}>
			New sandbox
		</Button>
	);
	return (
		<div class="page">
			<PageHead title="Sandboxes" sub="Linux machines for code that you do not trust.">
				{all?.length !== 0 && create}
			</PageHead>
			{error && <Notice>{textOf(error)}</Notice>}
			{all?.length !== 0 && (
				<div class="filters">
					<SearchField label="Filter by name, ID or environment" value={text} onInput={(e) => setText(e.currentTarget.value)} />
					<Segments
						label="Status"
						value={filter}
						onChange={setFilter}
						options={[
							{ value: "all", text: "All", count: count("all") },
							{ value: "running", text: "Running", count: count("running") },
							{ value: "paused", text: "Paused", count: count("paused") },
							...(count("other") || filter === "other" ? [{ value: "other" as const, text: "Other", count: count("other") }] : []),
						]}
					/>
				</div>
			)}
			<section class="panel boxes" aria-label="List of sandboxes" aria-busy={!all}>
				{!all && !error && <Bones />}
				{all?.length === 0 && (
					<Empty icon={Box} title="No sandboxes yet" actions={create}>
						A sandbox is a Linux machine of its own, for code that you do not trust. It starts in less than a second, and you can pause it at any time.
					</Empty>
				)}
				{all?.length !== 0 && shown?.length === 0 && (
					<Empty
						icon={SearchX}
						title="No sandbox matches"
						actions={
							<Button
								onClick={() => {
									setText("");
									setFilter("all");
								}}
							>
								Show all
							</Button>
						}
					/>
				)}
				{!!shown?.length && (
					<>
						<BoxesHead />
						<Rows items={asTree(shown)} keyOf={({ box }) => box.id}>
							{({ box: b, depth }, row) => <Row key={b.id} box={b} depth={depth} row={row} />}
						</Rows>
					</>
				)}
			</section>
			{all?.length === 0 && canWrite.value && <ApiRequest title="Create one from a program" label="A request that creates a sandbox" path="/v1/sandboxes" body={`{"template": "debian:12"}`} />}
			{creating && <Create onClose={() => setCreating(false)} />}
		</div>
	);
}

/** ApiRequest shows a command that sends a request to the API. */
export function ApiRequest({ title, label, path, body }: { title: string; label: string; path: string; body: string }) {
	return (
		<Panel title={title}>
			<div class="inner stack">
				<Snippet label={label} text={`curl -H "X-API-Key: $PYRO_API_KEY" -H "Content-Type: application/json" \\\n  -d '${body}' \\\n  ${location.origin}${path}`} />
				<p class="dim">
					The request needs an <a class="link" href="/keys">API key</a>.
				</p>
			</div>
		</Panel>
	);
}

function Row({ box: b, depth, row }: { box: Sandbox; depth: number; row: RowProps }) {
	const name = nameOf(b);
	const href = hrefOf(b.id);
	const busy = isToggled(b.id);
	return (
		<li class="box" {...row} style={{ ...row.style, "--indent": `${Math.min(depth, 5) * 20}px` }}>
			<a class="box-name" href={href}>
				<span class="branch">
					{depth > 0 && <CornerDownRight size={14} aria-label="Fork:" />}
					<span class={`cut ${name === b.id ? "mono" : "strong"}`}>{name}</span>
				</span>
				{name !== b.id && <span class="cut mono faint small">{b.id}</span>}
			</a>
			<Status of={b.status} />
			<span class="cut dim box-template">{b.template}</span>
			<span class="cut dim num box-size">
				{cores(b.vcpus)} · {megabytes(b.memory_mb)}
			</span>
			<span class="cut dim box-time" title={exact(b.last_active_at ?? b.created_at)}>
				{ago(b.last_active_at ?? b.created_at)}
			</span>
			<span class="box-actions">
				{canWrite.value && b.status === "running" && <Button kind="quiet" small icon={Pause} busy={busy} label={`Pause ${name}`} onClick={() => toggle(b)}><span class="word">Pause</span></Button>}
				{canWrite.value && b.status === "paused" && <Button kind="quiet" small icon={Play} busy={busy} label={`Resume ${name}`} onClick={() => toggle(b)}><span class="word">Resume</span></Button>}
				<Menu label={`More actions for ${name}`} icon={Ellipsis} small>
					<button type="button" onClick={() => go(`${href}/terminal`)}>
						<SquareTerminal size={16} aria-hidden />
						Open a terminal
					</button>
					<Actions box={b} />
				</Menu>
			</span>
		</li>
	);
}

/** Actions are the actions of a menu that change a sandbox. */
export function Actions({ box: b, onDeleted }: { box: Sandbox; onDeleted?: () => void }) {
	return (
		<>
			<button type="button" disabled={!canWrite.value || filterOf(b) === "other"} onClick={() => askFork(b)}>
				<GitFork size={16} aria-hidden />
				Fork…
			</button>
			<button type="button" disabled={!canWrite.value || filterOf(b) === "other"} onClick={() => askTemplate(b)}>
				<Layers size={16} aria-hidden />
				Turn into a template…
			</button>
			<button type="button" class="danger" disabled={!canWrite.value} onClick={() => (deleteBox(b), onDeleted?.())}>
				<Trash size={16} aria-hidden />
				Delete
			</button>
		</>
	);
}

const toggled = signal<string[]>([]);
/** isToggled reports whether toggle still works on the sandbox with an ID. */
export const isToggled = (id: string) => toggled.value.includes(id);

/** toggle pauses a running sandbox, and resumes another one. A toast shows its error. */
export async function toggle(b: Sandbox) {
	toggled.value = [...toggled.value, b.id];
	await (b.status === "running" ? api.pause(b.id) : api.resume(b.id)).catch((err) => err.status !== 401 && showError(err));
	await reload("sandbox");
	toggled.value = toggled.value.filter((id) => id !== b.id);
}

/** askFork copies a sandbox if the user confirms it. A running one is copied with its programs. */
async function askFork(b: Sandbox) {
	const name = nameOf(b);
	const live = b.status === "running";
	const key = newRequestKey();
	let fork = "";
	const done = await ask({
		title: `Fork ${name}?`,
		text: live ? "The fork is a copy with the same files, memory and running programs. Both continue on their own." : "The fork is a copy with the same files. Both continue on their own.",
		action: "Create fork",
		danger: false,
		run: async () => {
			fork = (await api.fork(b.id, { live, metadata: { ...b.metadata, name: `${[...name].slice(0, 70).join("")}-fork` } }, key)).id;
			await reload("sandboxes");
		},
	});
	if (done) go(hrefOf(fork));
}

/** askTemplate turns a sandbox into a template if the user confirms it. */
async function askTemplate(b: Sandbox) {
	let name = "";
	let files_only = false;
	const done = await ask({
		title: `Turn ${nameOf(b)} into a template?`,
		text: (
			<div class="stack">
				<p>New sandboxes can begin with the template. The sandbox itself no longer exists then.</p>
				<Field label="Name of the template" hint="Letters, digits, dots, dashes and underscores. Without a name, it gets a random one.">
					{(id, hint) => (
						<input id={id} class="input" maxLength={64} autocomplete="off" spellcheck={false} aria-describedby={hint} placeholder="tools" onInput={(e) => (name = e.currentTarget.value.trim())} />
					)}
				</Field>
				<Field label="It contains">
					{(id) => (
						<select id={id} class="input" onChange={(e) => (files_only = e.currentTarget.value === "files")}>
							<option value="">Files and running programs</option>
							<option value="files">Only files: new sandboxes boot</option>
						</select>
					)}
				</Field>
			</div>
		),
		action: "Create template",
		run: async () => {
			await api.newTemplate({ sandbox_id: b.id, name, files_only });
			void reload("sandboxes");
		},
	});
	if (done) go("/templates");
}

/** asTree puts forks below their sources. depth is the number of sources above a row. */
function asTree(all: Sandbox[]): { box: Sandbox; depth: number }[] {
	const ids = new Set(all.map((b) => b.id));
	const forks = new Map<string, Sandbox[]>();
	for (const b of all) if (b.parent_id && ids.has(b.parent_id)) forks.set(b.parent_id, [...(forks.get(b.parent_id) ?? []), b]);
	const rows: { box: Sandbox; depth: number }[] = [];
	const add = (b: Sandbox, depth: number) => {
		rows.push({ box: b, depth });
		for (const f of forks.get(b.id) ?? []) add(f, depth + 1);
	};
	for (const b of all) if (!b.parent_id || !ids.has(b.parent_id)) add(b, 0);
	return rows;
}

/** deleteBox deletes a sandbox if the user does not undo it. */
function deleteBox(b: Sandbox) {
	deleteLater(`sandbox/${b.id}`, nameOf(b), async () => {
		await api.remove(b.id);
		await reload("sandboxes");
	});
}

const BoxesHead = () => (
	<div class="boxes-head" aria-hidden="true">
		<span>Name</span>
		<span>Status</span>
		<span>Environment</span>
		<span>Size</span>
		<span>Last active</span>
	</div>
);

function Bones() {
	return (
		<>
			<BoxesHead />
			<ul aria-hidden="true">
				{[150, 120, 170].map((w) => (
					<li class="box">
						<span class="box-name">
							<Bone w={w} />
						</span>
						<Bone w={64} />
						<span class="box-template">
							<Bone w={80} />
						</span>
						<span class="box-size">
							<Bone w={100} />
						</span>
						<span class="box-time">
							<Bone w={70} />
						</span>
						<span />
					</li>
				))}
			</ul>
		</>
	);
}
