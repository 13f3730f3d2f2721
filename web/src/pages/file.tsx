// A file of a sandbox in the editor.
import type { Text } from "@codemirror/state";
import { useEffect, useRef, useState } from "preact/hooks";
import { ArrowLeft, Download, File as FileIcon, Save } from "lucide-preact";
import { api, textOf } from "../api";
import { canWrite } from "../data";
import { draftOf, dropDraft, keepDraft } from "../drafts";
import { bytes } from "../format";
import { lazy } from "../lazy";
import { showError, toast } from "../messages";
import { ask, Button, Empty, Notice } from "../ui";
import type { Taken } from "./editor";

const Editor = lazy(() => import("./editor").then((m) => m.Editor));

/** maxText is the size in bytes of the largest file that the editor opens. */
const maxText = 2 << 20;

export async function download(id: string, path: string, name: string) {
	const url = URL.createObjectURL(await (await api.read(id, path)).blob());
	const a = document.createElement("a");
	a.href = url;
	a.download = name;
	a.click();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}

type Content = { text: string } | { reason: string };

/** load reads a file for the editor, or says why the editor does not open it. */
async function load(id: string, path: string, signal?: AbortSignal): Promise<Content> {
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

/** OpenFile shows a file, and saves it. */
export function OpenFile(props: { id: string; path: string; takesFocus: boolean; onSaved: () => void; onClose: () => void }) {
	const { id, path, onClose } = props;
	const name = path.split("/").at(-1)!;
	const [content, setContent] = useState<Content>();
	const [error, setError] = useState("");
	const [dirty, setDirty] = useState(false);
	const [saving, setSaving] = useState(false);
	const take = useRef<() => Taken>();
	const [draft] = useState(() => draftOf(id, path)); // of an earlier visit
	const base = useRef(""); // the text of the file when it was read or written
	const change = (text: Text, is: boolean) => {
		setDirty(is);
		if (is) keepDraft({ sandbox: id, path, text, saved: base.current });
		else dropDraft(id, path);
	};

	useEffect(() => {
		const stop = new AbortController();
		const show = (c: Content) => {
			if (stop.signal.aborted) return;
			if ("text" in c) base.current = draft?.saved ?? c.text;
			setContent(c);
		};
		load(id, path, stop.signal).then(show, (err) => {
			if (stop.signal.aborted) return;
			setError(textOf(err));
			if (draft) show({ text: "" }); // the file may be gone, but not the draft
		});
		return () => stop.abort();
	}, []);

	const save = async () => {
		if (saving || !take.current) return;
		setSaving(true);
		try {
			const { text, saved: done } = take.current();
			// A time does not tell all changes: it can be the same, or earlier, or the time of a link.
			const now = await load(id, path).catch((err) => {
				if (err.status !== 404) throw err;
			});
			const write = async () => {
				await api.write(id, path, new Blob([text]));
				base.current = text;
			};
			if (now && !("text" in now && now.text === base.current)) {
				if (!(await ask({ title: `Replace ${name}?`, text: "A program or another person has changed this file since you opened it. Your text replaces these changes.", action: "Replace file", run: write }))) return;
			} else await write();
			setError("");
			done();
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
				<Editor
					name={name}
					text={content.text}
					draft={draft?.text}
					readOnly={!canWrite.value}
					takesFocus={props.takesFocus}
					onChange={change}
					onSave={() => void save()}
					onReady={(f: () => Taken) => (take.current = f)}
				/>
			)}
		</>
	);
}
