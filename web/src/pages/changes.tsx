// The tab of a sandbox with its snapshots and changed files.
import { useMemo, useState } from "preact/hooks";
import { Camera, ChevronRight, FileDiff, RotateCcw, Trash } from "lucide-preact";
import { api, type Checkpoint, type Diff, type Sandbox } from "../api";
import { canWrite, nameOf, reload, useData } from "../data";
import { ago, bytes, capital, exact, plural } from "../format";
import { filesOf } from "../patch";
import { ask, Button, Empty, Field, FormModal, Panel, Table } from "../ui";

export function Changes({ box: b }: { box: Sandbox }) {
	const diff = useData(`sandbox/${b.id}/diff`, (api) => api.diff(b.id));
	const shots = useData(`sandbox/${b.id}/checkpoints`, (api) => api.checkpoints(b.id));
	const [making, setMaking] = useState(false);
	const reset = (c: Checkpoint) =>
		ask({
			title: `Reset ${nameOf(b)} to ${c.snapshot_name}?`,
			text: "The sandbox gets a fresh machine. Later changes to its files and its running programs are lost.",
			action: "Reset sandbox",
			run: async () => {
				await api.reset(b.id, c.kind === "baseline" ? "" : c.snapshot_name);
				await reload("sandbox");
			},
		});
	const remove = (c: Checkpoint) =>
		ask({
			title: `Delete the snapshot ${c.snapshot_name}?`,
			text: "This can't be undone. The sandbox itself does not change.",
			action: "Delete snapshot",
			run: async () => {
				await api.removeCheckpoint(b.id, c.snapshot_name);
				await shots.reload();
			},
		});
	return (
		<div class="page">
			<Panel
				title="Changes in /workspace"
				actions={diff.value && <span class="faint small num">{plural(diff.value.entries.filter((e) => !isFolder(e)).length, "file")}</span>}
				loading={!diff.value}
				error={diff.error}
			>
				{diff.value && !diff.value.changed && (
					<Empty icon={FileDiff} title="Nothing has changed">
						Changes to files in /workspace appear here, compared with the state after the creation.
					</Empty>
				)}
				{diff.value?.changed && (
					<>
						<Files diff={diff.value} />
						{diff.value.patch_truncated && <p class="inner dim">The patch is cut.</p>}
					</>
				)}
			</Panel>
			<Panel
				title="Snapshots"
				actions={
					canWrite.value && (
						<Button small icon={Camera} onClick={() => setMaking(true)}>
							New snapshot
						</Button>
					)
				}
				error={shots.error}
			>
				{!shots.error && (
					<Table columns={["Name", "Contains", "Size", "Created"]} actions loading={!shots.value}>
						{shots.value?.map((c) => (
							<tr key={c.snapshot_name}>
								<td class="strong">{c.snapshot_name}</td>
								<td class="dim">{c.kind === "baseline" ? "The state after the creation" : c.full ? "The whole disk" : "/workspace"}</td>
								<td class="dim num">{bytes(c.size_bytes)}</td>
								<td class="dim" title={exact(c.created_at)}>
									{ago(c.created_at)}
								</td>
								<td class="end">
									{canWrite.value && (
										<Button small kind="quiet" icon={RotateCcw} label={`Reset to ${c.snapshot_name}…`} onClick={() => reset(c)}>
											Reset…
										</Button>
									)}
									{canWrite.value && c.kind === "named" && (
										<Button small kind="quiet" icon={Trash} label={`Delete ${c.snapshot_name}`} onClick={() => remove(c)}>
											Delete
										</Button>
									)}
								</td>
							</tr>
						))}
					</Table>
				)}
			</Panel>
			{making && <NewSnapshot id={b.id} onClose={() => setMaking(false)} onDone={shots.reload} />}
		</div>
	);
}

const isFolder = (e: { kind: string }) => e.kind === "directory";

const maxFiles = 1000;
const maxLines = 3000;
const maxOpenLines = 500; // then all files are open

/** Files lists the changed files, each with its patch. */
function Files({ diff }: { diff: Diff }) {
	const patches = useMemo(() => filesOf(diff.patch, maxLines), [diff.patch]);
	const open = patches.reduce((n, f) => n + f.lines.length, 0) <= maxOpenLines;
	const named = new Map(patches.map((f) => [f.path, f]));
	return (
		<>
			{diff.entries.slice(0, maxFiles).map((e) => {
				const lines = named.get(e.path)?.lines;
				const head = (
					<>
						<span class={`change ${e.status}`}>{capital(e.status)}</span>
						<span class="mono cut grow">{isFolder(e) ? `${e.path}/` : e.path}</span>
						{e.lines_added > 0 && <span class="change added lines num">+{e.lines_added}</span>}
						{e.lines_removed > 0 && <span class="change deleted lines num">−{e.lines_removed}</span>}
					</>
				);
				if (!lines?.length)
					return (
						<div class="fold plain" key={e.path}>
							{head}
						</div>
					);
				return (
					<details key={e.path} class="fold" open={open}>
						<summary>
							<ChevronRight size={14} aria-hidden />
							{head}
						</summary>
						<Patch path={e.path} lines={lines} />
					</details>
				);
			})}
			{diff.entries.length > maxFiles && <p class="inner dim">The page shows the first {maxFiles} files.</p>}
		</>
	);
}

const kinds: Record<string, string> = { "+": "plus", "-": "minus", "@": "hunk", " ": "" };

function Patch({ path, lines }: { path: string; lines: string[] }) {
	return (
		<pre class="patch" role="group" tabIndex={0} aria-label={`Patch of ${path}`}>
			{lines.map((l) => (
				<span class={kinds[l[0]] ?? "meta"}>{`${l}\n`}</span>
			))}
		</pre>
	);
}

function NewSnapshot({ id, onClose, onDone }: { id: string; onClose: () => void; onDone: () => Promise<unknown> }) {
	const create = async (form: FormData) => {
		await api.newCheckpoint(id, String(form.get("name")).trim(), form.get("what") === "full");
		await onDone();
		onClose();
	};
	return (
		<FormModal title="New snapshot" action="Create snapshot" submit={create} onClose={onClose}>
			<Field label="Name" hint="Letters, digits, dots, dashes and underscores.">
				{(i, hint) => <input id={i} class="input" name="name" required maxLength={64} pattern="[A-Za-z0-9._\-]+" autocomplete="off" spellcheck={false} aria-describedby={hint} placeholder="before-upgrade" />}
			</Field>
			<Field label="It contains">
				{(i) => (
					<select id={i} class="input" name="what">
						<option value="">The files in /workspace</option>
						<option value="full">The whole disk, with installed packages</option>
					</select>
				)}
			</Field>
		</FormModal>
	);
}
