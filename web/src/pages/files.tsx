import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ArrowLeft, ArrowUp, Download, Ellipsis, File as FileIcon, FileSymlink, Folder, FolderOpen, FolderPlus, Pencil, RefreshCw, Save, Trash, Upload } from "lucide-preact";
import { api, textOf, type File as Entry, type Sandbox } from "../api";
import { canWrite, useData } from "../data";
import { ago, bytes, plural } from "../format";
import { lazy } from "../lazy";
import { deleteLater, finishDeletions, hidden, showError, toast } from "../messages";
import { ask, Bone, Button, Empty, Field, FormModal, Menu, Notice, SearchField } from "../ui";
import { Rows } from "../rows";
import { Rename } from "./rename";

const Editor = lazy(() => import("./editor").then((m) => m.Editor));

/** maxText is the size in bytes of the largest file that the editor opens. */
const maxText = 2 << 20;
const maxUpload = 100 << 20;
/** manyEntries is the size of a folder that has a field to find entries. */
const manyEntries = 50;
/** above is the row of the folder above. */
const above = { path: ".." } as Entry;

const join = (dir: string, name: string) => (dir === "/" ? `/${name}` : `${dir}/${name}`);
const parent = (path: string) => path.replace(/\/[^/]*$/, "") || "/";
const isFolder = (e: Entry) => e.type === "directory";
const byName = new Intl.Collator(undefined, { numeric: true }).compare;

export async function download(id: string, path: string, name: string) {
	const url = URL.createObjectURL(await (await api.read(id, path)).blob());
	const a = document.createElement("a");
	a.href = url;
	a.download = name;
	a.click();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}

export function Files({ box: b }: { box: Sandbox }) {
	const query = new URLSearchParams(location.search);
	const [dir, setDir] = useState(query.get("path") || "/");
	const [file, setFile] = useState<string | null>(query.get("file"));
	const [making, setMaking] = useState(false);
	const [renaming, setRenaming] = useState<Entry | null>(null);
	const [focus, setFocus] = useState(""); // path of the entry that gets the focus next
	const [drop, setDrop] = useState(false);
	const [busy, setBusy] = useState("");
	const [find, setFind] = useState("");
	const dirty = useRef(false);
	const moved = useRef(false); // the open file was renamed; the focus is in the folder
	const picker = useRef<HTMLInputElement>(null);
	const { value: all, error, reload } = useData(`sandbox/${b.id}/files${dir}`, (api) => api.list(b.id, dir));
	const keyOf = (path: string) => `sandbox/${b.id}/files${path}`;
	const sorted = useMemo(() => all && [...all].sort((x, y) => Number(isFolder(y)) - Number(isFolder(x)) || byName(x.name, y.name)), [all]);
	const wanted = find.trim().toLowerCase();
	const entries = sorted?.filter((e) => e.name.toLowerCase().includes(wanted) && !hidden(keyOf(e.path)));

	useEffect(() => {
		const q = new URLSearchParams();
		if (dir !== "/") q.set("path", dir);
		if (file) q.set("file", file);
		history.replaceState(null, "", `${location.pathname}${q.size ? `?${q}` : ""}`);
	}, [dir, file]);

	const leave = async () => {
		if (!dirty.current) return true;
		const yes = await ask({ title: "Discard the changes?", text: <>The changes to <code>{file}</code> are not saved.</>, action: "Discard changes", run: async () => {} });
		if (yes) dirty.current = false;
		return yes;
	};
	const enter = (to: string) => {
		setFind("");
		setDir(to);
	};
	const open = async (e: Entry) => {
		if (isFolder(e)) return enter(e.path);
		if (e.type === "symlink") {
			// A link can name a folder. Then listing it works.
			try {
				await api.list(b.id, e.path);
				return enter(e.path);
			} catch {} // a file, or nothing: the editor says which
		}
		if (e.path !== file && (await leave())) {
			moved.current = false;
			setFile(e.path);
		}
	};
	const upload = async (files: File[]) => {
		await finishDeletions(); // they could have the same names
		const known = new Set((await api.list(b.id, dir)).map((e) => e.name));
		const doubles = files.filter((f) => known.has(f.name));
		if (doubles.length && !(await ask({ title: `Replace ${doubles.length === 1 ? doubles[0].name : plural(doubles.length, "file")}?`, text: `${dir} has ${doubles.length === 1 ? "a file" : "files"} of the same name.`, action: "Replace", run: async () => {} }))) return;
		let done = 0;
		try {
			for (const f of files) {
				if (f.size > maxUpload) throw new Error(`${f.name} is larger than ${bytes(maxUpload)}`);
				setBusy(`Uploading ${f.name}`);
				await api.write(b.id, join(dir, f.name), f);
				done++;
			}
		} catch (err) {
			showError(err);
		}
		setBusy("");
		if (done) toast(`${plural(done, "file")} uploaded to ${dir}`);
		await reload();
	};
	const remove = async (e: Entry) => {
		if (file && (file === e.path || file.startsWith(`${e.path}/`))) {
			if (!(await leave())) return;
			setFile(null);
		}
		const i = entries!.indexOf(e);
		setFocus((entries![i + 1] ?? entries![i - 1] ?? above).path);
		deleteLater(keyOf(e.path), e.name, async () => {
			await api.rm(b.id, e.path);
			await reload();
		});
	};
	/** rename returns the path of the entry, which is the old one if the user keeps unsaved changes. */
	const rename = async (e: Entry, name: string) => {
		const to = join(dir, name);
		const shows = !!file && (file === e.path || file.startsWith(`${e.path}/`));
		const unsaved = dirty.current;
		if (shows && !(await leave())) return e.path;
		try {
			await finishDeletions();
			await api.rename(b.id, e.path, to);
		} catch (err) {
			dirty.current = unsaved; // the editor still has the text
			throw err;
		}
		if (shows) {
			moved.current = true;
			setFile(to + file.slice(e.path.length));
		}
		await reload();
		return to;
	};
	return (
		<div class={`files ${file ? "has-file" : ""}`}>
			<section
				class={`browser ${drop ? "drop" : ""}`}
				aria-label="Folder"
				onDragOver={(e) => {
					if (!canWrite.value || !e.dataTransfer?.types.includes("Files")) return;
					e.preventDefault();
					setDrop(true);
				}}
				onDragLeave={(e) => !e.currentTarget.contains(e.relatedTarget as Node) && setDrop(false)}
				onDrop={(e) => {
					e.preventDefault();
					setDrop(false);
					if (canWrite.value) void upload([...(e.dataTransfer?.files ?? [])]);
				}}
			>
				<div class="browser-bar">
					<Where dir={dir} onChange={enter} />
					<Button kind="quiet" small icon={RefreshCw} label="Load again" onClick={() => void reload()} />
					{canWrite.value && (
						<>
							<Button kind="quiet" small icon={FolderPlus} label="New folder" onClick={() => setMaking(true)} />
							<Button kind="quiet" small icon={Upload} busy={!!busy} label={busy || "Upload files"} onClick={() => picker.current?.click()} />
							<input
								ref={picker}
								type="file"
								multiple
								hidden
								aria-label="Files to upload"
								onChange={(e) => {
									void upload([...(e.currentTarget.files ?? [])]);
									e.currentTarget.value = "";
								}}
							/>
						</>
					)}
				</div>
				{(all && all.length > manyEntries) || find ? (
					<div class="browser-find">
						<SearchField label={`Find in ${plural(all?.length ?? 0, "entry", "entries")}`} value={find} onInput={(e) => setFind(e.currentTarget.value)} />
					</div>
				) : null}
				{error && (
					<div class="inner">
						<Notice>{textOf(error)}</Notice>
					</div>
				)}
				<div class="entries" aria-busy={!all} key={dir}>
					{!all && !error && <Bones />}
					{entries && (
						<Rows items={dir === "/" ? entries : [above, ...entries]} keyOf={(e) => e.path} focus={focus} onFocused={() => setFocus("")}>
							{(e, row) => {
								if (e === above)
									return (
										<li key={e.path} class="entry" {...row}>
											<button type="button" class="entry-name" onClick={() => enter(parent(dir))} aria-label="The folder above">
												<ArrowUp size={16} aria-hidden />
												<span class="dim">..</span>
											</button>
										</li>
									);
								const Icon = isFolder(e) ? Folder : e.type === "symlink" ? FileSymlink : FileIcon;
								return (
									<li key={e.path} class={`entry ${file === e.path ? "open" : ""}`} {...row}>
										<button
											type="button"
											class="entry-name"
											disabled={e.type === "other"}
											aria-current={file === e.path ? "true" : undefined}
											onClick={() => void open(e)}
											title={`${e.permissions} ${e.owner}:${e.group}, changed ${ago(e.modified_at * 1000)}${e.symlink_target ? `, points to ${e.symlink_target}` : ""}`}
										>
											<Icon size={16} class={isFolder(e) ? "dir" : ""} aria-label={e.type} />
											<span class="cut">{e.name}</span>
											{e.type === "file" && <span class="size num">{bytes(e.size)}</span>}
										</button>
										<Menu label={`Actions for ${e.name}`} icon={Ellipsis} small>
											{e.type === "file" && (
												<button type="button" onClick={() => download(b.id, e.path, e.name).catch(showError)}>
													<Download size={16} aria-hidden />
													Download
												</button>
											)}
											<button type="button" disabled={!canWrite.value} onClick={() => setRenaming(e)}>
												<Pencil size={16} aria-hidden />
												Rename…
											</button>
											<button type="button" class="danger" disabled={!canWrite.value} onClick={() => void remove(e)}>
												<Trash size={16} aria-hidden />
												Delete
											</button>
										</Menu>
									</li>
								);
							}}
						</Rows>
					)}
				</div>
				{entries?.length === 0 && !!find && <Empty icon={FolderOpen} title="No entry matches" />}
				{all?.length === 0 && (
					<Empty icon={FolderOpen} title="This folder is empty">
						{canWrite.value && "Drop files here to upload them."}
					</Empty>
				)}
			</section>
			<section class="editor" aria-label="File">
				{file ? (
					<OpenFile
						key={file}
						id={b.id}
						path={file}
						takesFocus={!moved.current}
						onDirty={(is) => (dirty.current = is)}
						onSaved={() => void reload()}
						onClose={() => void leave().then((yes) => yes && setFile(null))}
					/>
				) : (
					<Empty icon={FileIcon} title="No file is open">
						Choose a file to read or edit it.
					</Empty>
				)}
			</section>
			{renaming && (
				<Rename
					entry={renaming}
					rename={(name) => rename(renaming, name)}
					onClose={(path) => {
						setRenaming(null);
						setFocus(path);
					}}
				/>
			)}
			{making && <NewFolder id={b.id} dir={dir} onClose={() => setMaking(false)} onDone={reload} />}
		</div>
	);
}

const Bones = () => (
	<ul aria-hidden="true">
		{[90, 60, 110, 70, 100, 50].map((w) => (
			<li class="entry">
				<span class="entry-name">
					<Bone w={16} h={16} />
					<Bone w={w} />
				</span>
			</li>
		))}
	</ul>
);

function Where({ dir, onChange }: { dir: string; onChange: (to: string) => void }) {
	const names = dir.split("/").filter(Boolean);
	return (
		<nav class={`where ${dir.length < 24 ? "short" : ""}`} aria-label="Path">
			<ol>
				<li>
					<button type="button" onClick={() => onChange("/")} aria-label="Root folder">
						/
					</button>
				</li>
				{names.map((name, i) => (
					<li>
						{i > 0 && <span aria-hidden="true">/</span>}
						<button type="button" aria-current={i === names.length - 1 ? "true" : undefined} onClick={() => onChange(`/${names.slice(0, i + 1).join("/")}`)}>
							{name}
						</button>
					</li>
				))}
			</ol>
		</nav>
	);
}

function NewFolder({ id, dir, onClose, onDone }: { id: string; dir: string; onClose: () => void; onDone: () => Promise<unknown> }) {
	const create = async (form: FormData) => {
		await finishDeletions();
		await api.mkdir(id, join(dir, String(form.get("name"))));
		await onDone();
		onClose();
	};
	return (
		<FormModal title="New folder" action="Create folder" submit={create} onClose={onClose}>
			<Field label={`Name in ${dir}`}>{(i) => <input id={i} class="input" name="name" required maxLength={255} autocomplete="off" spellcheck={false} />}</Field>
		</FormModal>
	);
}

type Content = { text: string } | { reason: string };

/** load reads a file for the editor, or says why the editor does not open it. */
async function load(id: string, path: string, signal: AbortSignal): Promise<Content> {
	const r = await api.read(id, path, signal);
	const parts: Uint8Array[] = [];
	let size = 0;
	const reader = r.body!.getReader();
	for (;;) {
		const { done, value } = await reader.read();
		if (done) break;
		parts.push(value);
		size += value.length;
		if (size > maxText) {
			void reader.cancel();
			return { reason: `It is larger than ${bytes(maxText)}. Download it to look at it.` };
		}
	}
	const content = new Uint8Array(size);
	let at = 0;
	for (const p of parts) {
		content.set(p, at);
		at += p.length;
	}
	if (content.subarray(0, 8192).includes(0)) return { reason: "It is a binary file. Download it to look at it." };
	try {
		return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content) };
	} catch {
		return { reason: "Its text is not UTF-8. Download it to look at it." };
	}
}

function OpenFile(props: { id: string; path: string; takesFocus: boolean; onDirty: (is: boolean) => void; onSaved: () => void; onClose: () => void }) {
	const { id, path, onClose } = props;
	const name = path.split("/").at(-1)!;
	const [content, setContent] = useState<Content>();
	const [error, setError] = useState("");
	const [dirty, setDirty] = useState(false);
	const [saving, setSaving] = useState(false);
	const text = useRef<() => string>();
	const saved = useRef(0); // when the file was read or written, as the server names it
	const mark = (is: boolean) => {
		setDirty(is);
		props.onDirty(is);
	};
	const changedAt = async () => (await api.list(id, parent(path))).find((e) => e.path === path)?.modified_at ?? 0;

	useEffect(() => {
		const stop = new AbortController();
		Promise.all([load(id, path, stop.signal), changedAt()]).then(
			([c, at]) => {
				saved.current = at;
				if (!stop.signal.aborted) setContent(c);
			},
			(err) => !stop.signal.aborted && setError(textOf(err)),
		);
		return () => stop.abort();
	}, []);
	useEffect(() => {
		if (!dirty) return;
		const warn = (e: BeforeUnloadEvent) => e.preventDefault();
		addEventListener("beforeunload", warn);
		return () => removeEventListener("beforeunload", warn);
	}, [dirty]);

	const save = async () => {
		if (saving || !text.current) return;
		setSaving(true);
		try {
			const value = text.current();
			const at = await changedAt();
			const write = async () => {
				await api.write(id, path, new Blob([value]));
				saved.current = await changedAt();
			};
			if (at > saved.current && saved.current) {
				if (!(await ask({ title: `Replace ${name}?`, text: "A program or another person has changed this file since you opened it. Your text replaces these changes.", action: "Replace file", run: write }))) return;
			} else await write();
			if (text.current() === value) mark(false);
			toast(`${name} saved`);
			props.onSaved();
		} catch (err) {
			showError(err);
		} finally {
			setSaving(false);
		}
	};

	return (
		<>
			<div class="editor-bar">
				<Button kind="quiet" small class="back" icon={ArrowLeft} label="Back to the folder" onClick={onClose} />
				<span class="cut mono" title={path}>
					{name}
				</span>
				{dirty && <span class="tag">not saved</span>}
				<span class="grow" />
				<Button kind="quiet" small icon={Download} label={`Download ${name}`} onClick={() => download(id, path, name).catch(showError)} />
				{canWrite.value && content && "text" in content && (
					<Button small kind={dirty ? "primary" : undefined} icon={Save} busy={saving} disabled={!dirty} onClick={save} title="Ctrl+S">
						Save
					</Button>
				)}
			</div>
			{error && (
				<div class="inner">
					<Notice>{error}</Notice>
				</div>
			)}
			{!content && !error && <div class="editor-host" aria-busy="true" />}
			{content && "reason" in content && (
				<Empty icon={FileIcon} title={`The editor can't open ${name}`} actions={<Button icon={Download} onClick={() => download(id, path, name).catch(showError)}>Download</Button>}>
					{content.reason}
				</Empty>
			)}
			{content && "text" in content && (
				<Editor name={name} text={content.text} readOnly={!canWrite.value} takesFocus={props.takesFocus} onDirty={mark} onSave={() => void save()} onReady={(get: () => string) => (text.current = get)} />
			)}
		</>
	);
}
