import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { ArrowUp, Download, Ellipsis, File as FileIcon, FileSymlink, Folder, FolderOpen, FolderPlus, Pencil, RefreshCw, Trash, Upload, X } from "lucide-preact";
import { api, textOf, type File as Entry, type Sandbox } from "../api";
import { canWrite, useData } from "../data";
import { draftOf, dropDraft, keepDraft } from "../drafts";
import { ago, bytes, plural } from "../format";
import { deleteLater, finishDeletions, hidden, showError } from "../messages";
import { inside, isFolder, join, keyOf, parent, sorted } from "../paths";
import { Rows } from "../rows";
import { ask, Bone, Button, Empty, Field, FormModal, Menu, Notice, SearchField } from "../ui";
import { type Item, itemsOf, upload, uploads } from "../uploads";
import { download, OpenFile } from "./file";
import { Rename } from "./rename";
import { Tree } from "./tree";

/** manyEntries is the size of a folder that has a field to find entries. */
const manyEntries = 50;
/** above is the row of the folder above. */
const above = { path: ".." } as Entry;

/** wide: there is room for the tree of folders. The list alone shows all folders too. */
const wideWindow = matchMedia("(min-width: 960px)");
const wide = signal(wideWindow.matches);
wideWindow.addEventListener("change", () => (wide.value = wideWindow.matches));

export function Files({ box: b }: { box: Sandbox }) {
	const query = new URLSearchParams(location.search);
	const draft = query.size ? undefined : draftOf(b.id)?.path; // the user comes back to it
	const [dir, setDir] = useState(query.get("path") || (draft ? parent(draft) : "/"));
	const [file, setFile] = useState<string | null>(draft ?? query.get("file"));
	const [making, setMaking] = useState(false);
	const [renaming, setRenaming] = useState<Entry | null>(null);
	const [focus, setFocus] = useState(""); // path of the entry that gets the focus next
	const [drop, setDrop] = useState(false);
	const [find, setFind] = useState("");
	const moved = useRef(false); // the open file was renamed; the focus is in the folder
	const picker = useRef<HTMLInputElement>(null);
	const { value: all, error, reload } = useData(keyOf(b.id, dir), (api) => api.list(b.id, dir));
	const inOrder = useMemo(() => all && sorted(all), [all]);
	const wanted = find.trim().toLowerCase();
	const entries = inOrder?.filter((e) => e.name.toLowerCase().includes(wanted) && !hidden(keyOf(b.id, e.path)));

	useEffect(() => {
		const q = new URLSearchParams();
		if (dir !== "/") q.set("path", dir);
		if (file) q.set("file", file);
		history.replaceState(null, "", `${location.pathname}${q.size ? `?${q}` : ""}`);
	}, [dir, file]);

	const leave = async () => {
		if (!file || !draftOf(b.id, file)) return true;
		const yes = await ask({ title: "Discard the changes?", text: <>The changes to <code>{file}</code> are not saved.</>, action: "Discard changes", run: async () => {} });
		if (yes) dropDraft(b.id, file);
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
	const add = async (items: Item[]) => {
		if (!items.length) return;
		await finishDeletions(); // they could have the same names
		const known = new Set((await api.list(b.id, dir)).map((e) => e.name));
		const doubles = [...new Set(items.map((i) => i.path.split("/")[0]))].filter((name) => known.has(name));
		const one = doubles.length === 1;
		if (doubles.length && !(await ask({ title: `Replace ${one ? doubles[0] : plural(doubles.length, "file")}?`, text: `${dir} has ${one ? "an entry" : "entries"} of the same name.`, action: "Replace", run: async () => {} }))) return;
		await upload(b.id, dir, items);
		await reload();
	};
	const remove = async (e: Entry) => {
		if (file && inside(e.path, file)) {
			if (!(await leave())) return;
			setFile(null);
		}
		const i = entries!.indexOf(e);
		setFocus((entries![i + 1] ?? entries![i - 1] ?? above).path);
		deleteLater(keyOf(b.id, e.path), e.name, async () => {
			await api.rm(b.id, e.path);
			await reload();
		});
	};
	/** rename returns the path of the entry, which is the old one if the user keeps unsaved changes. */
	const rename = async (e: Entry, name: string) => {
		const to = join(dir, name);
		const shows = !!file && inside(e.path, file);
		const unsaved = shows && draftOf(b.id, file);
		if (shows && !(await leave())) return e.path;
		try {
			await api.rename(b.id, e.path, to);
		} catch (err) {
			if (unsaved) keepDraft(unsaved); // the editor still has the text
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
		<div
			class={`files ${file ? "has-file" : ""} ${wide.value ? "has-tree" : ""}`}
			onDragOver={(e) => {
				if (!canWrite.value || !e.dataTransfer?.types.includes("Files")) return;
				e.preventDefault();
				setDrop(true);
			}}
			onDragLeave={(e) => !e.currentTarget.contains(e.relatedTarget as Node) && setDrop(false)}
			onDrop={(e) => {
				if (!drop) return;
				e.preventDefault();
				setDrop(false);
				itemsOf(e.dataTransfer!).then(add).catch(showError);
			}}
		>
			{wide.value && <Tree id={b.id} dir={dir} onEnter={enter} />}
			<section class={`browser ${drop ? "drop" : ""}`} aria-label="Folder">
				<div class="browser-bar">
					<Where dir={dir} onChange={enter} />
					<Button kind="quiet" small icon={RefreshCw} label="Load again" onClick={() => void reload()} />
					{canWrite.value && (
						<>
							<Button kind="quiet" small icon={FolderPlus} label="New folder" onClick={() => setMaking(true)} />
							<Button kind="quiet" small icon={Upload} label="Upload files" onClick={() => picker.current?.click()} />
							<input
								ref={picker}
								type="file"
								multiple
								hidden
								aria-label="Files to upload"
								onChange={(e) => {
									add([...(e.currentTarget.files ?? [])].map((file) => ({ path: file.name, file }))).catch(showError);
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
											title={`${e.permissions} ${e.owner}:${e.group}, changed: ${ago(e.modified_at * 1000)}${e.symlink_target ? `, points to ${e.symlink_target}` : ""}`}
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
						{canWrite.value && "Drop files or folders here to upload them."}
					</Empty>
				)}
				{uploads.value
					.filter((u) => u.sandbox === b.id)
					.map((u) => (
						<div class="upload" role="group" aria-label="Upload">
							<span class="cut grow">{u.text}</span>
							<span class="num dim">{Math.floor(u.part * 100)} %</span>
							<Button kind="quiet" small icon={X} label="Cancel upload" onClick={u.cancel} />
							<progress class="bar" max={1} value={u.part} aria-label="Uploaded" />
						</div>
					))}
			</section>
			<section class="editor" aria-label="File">
				{file ? (
					<OpenFile
						key={file}
						id={b.id}
						path={file}
						takesFocus={!moved.current}
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
