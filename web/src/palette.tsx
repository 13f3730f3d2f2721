// The command palette: Ctrl+K or Cmd+K finds a page, a sandbox or an action by its name.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Box, Pause, Play, Plus, Search, SquareTerminal, type LucideIcon } from "lucide-preact";
import { canWrite, hrefOf, nameOf, useSandboxes } from "./data";
import { toggle } from "./pages/sandboxes";
import { go, part } from "./router";
import { Modal } from "./ui";
import { tabs } from "./tabs";

export interface Command {
	text: string;
	/** more is a text that is found and shown too. */
	more?: string;
	icon: LucideIcon;
	run: () => unknown;
}

const open = signal(false);
export const openPalette = () => void (open.value = true);

/** isKey reports whether a key opens the palette. In a terminal, Ctrl+K belongs to the shell. */
const isKey = (e: KeyboardEvent) =>
	e.key.toLowerCase() === "k" && (e.metaKey || e.ctrlKey) && !e.altKey && (e.metaKey || e.shiftKey || !(e.target as Element).closest?.(".term"));

/** shown is how many results are in the list. Another letter finds the others. */
const shown = 50;

/** Palette shows the palette when it is open. pages and create are commands of the page around it. */
export function Palette({ pages, create }: { pages: Command[]; create: () => void }) {
	useEffect(() => {
		const press = (e: KeyboardEvent) => {
			if (!isKey(e)) return;
			e.preventDefault();
			if (open.value) open.value = false;
			else if (!document.querySelector("dialog[open]")) openPalette();
		};
		addEventListener("keydown", press, true); // before the terminal and the editor
		return () => {
			removeEventListener("keydown", press, true);
			open.value = false;
		};
	}, []);
	return open.value ? <Opened pages={pages} create={create} onClose={() => (open.value = false)} /> : null;
}

function Opened({ pages, create, onClose }: { pages: Command[]; create: () => void; onClose: () => void }) {
	const { value: boxes = [] } = useSandboxes();
	const [text, setText] = useState("");
	const [at, setAt] = useState(0);
	const list = useRef<HTMLUListElement>(null);
	const id = useId();
	const all: Command[] = [];
	const here = boxes.find((b) => part(0) === "sandboxes" && b.id === part(1));
	if (here) {
		const name = nameOf(here);
		for (const t of tabs) all.push({ text: t.text, more: name, icon: t.icon, run: () => go(t.name ? `${hrefOf(here.id)}/${t.name}` : hrefOf(here.id)) });
	}
	if (canWrite.value) all.push({ text: "New sandbox", icon: Plus, run: create });
	all.push(...pages);
	for (const b of here ? [here, ...boxes.filter((b) => b !== here)] : boxes) {
		const name = nameOf(b);
		const more = name === b.id ? b.status : `${b.status} · ${b.id}`;
		if (b !== here) all.push({ text: name, more, icon: Box, run: () => go(hrefOf(b.id)) });
		if (!canWrite.value) continue;
		if (b !== here) all.push({ text: `Open a terminal in ${name}`, icon: SquareTerminal, run: () => go(`${hrefOf(b.id)}/terminal`) });
		if (b.status === "running") all.push({ text: `Pause ${name}`, icon: Pause, run: () => toggle(b) });
		if (b.status === "paused") all.push({ text: `Resume ${name}`, icon: Play, run: () => toggle(b) });
	}
	// Every word must be in the text, in any order.
	const words = text.toLowerCase().split(/\s+/).filter(Boolean);
	const wanted = words.join(" ");
	const rank = (c: Command) => (c.text.toLowerCase() === wanted ? 0 : c.text.toLowerCase().startsWith(wanted) ? 1 : 2);
	const found = all.filter((c) => words.every((w) => `${c.text} ${c.more ?? ""}`.toLowerCase().includes(w))).sort((a, b) => rank(a) - rank(b));
	const visible = found.slice(0, shown);
	const current = Math.min(at, visible.length - 1);

	useEffect(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [current, text]);
	const run = (c: Command | undefined) => {
		if (!c) return;
		onClose();
		c.run();
	};
	const press = (e: KeyboardEvent) => {
		const steps: Record<string, number> = { ArrowDown: current + 1, ArrowUp: current - 1, PageDown: Math.min(current + 8, visible.length - 1), PageUp: Math.max(current - 8, 0) };
		if (e.key === "Enter") run(visible[current]);
		else if (e.key in steps) setAt((steps[e.key] + visible.length) % (visible.length || 1));
		else return;
		e.preventDefault();
	};
	return (
		<Modal title="Commands" class="palette" bare onClose={onClose}>
			<div class="palette-field">
				<Search size={16} aria-hidden />
				<input
					class="grow"
					role="combobox"
					aria-label="Find a page, a sandbox or an action"
					aria-expanded="true"
					aria-controls={id}
					aria-autocomplete="list"
					aria-activedescendant={visible.length ? `${id}-${current}` : undefined}
					placeholder="Find a page, a sandbox or an action"
					autocomplete="off"
					spellcheck={false}
					autoFocus
					value={text}
					onInput={(e) => {
						setText(e.currentTarget.value);
						setAt(0);
					}}
					onKeyDown={press}
				/>
				<Key>Esc</Key>
			</div>
			<ul class="palette-list" id={id} ref={list} role="listbox" aria-label="Results">
				{visible.map((c, i) => (
					<li key={c.text + c.more} id={`${id}-${i}`} role="option" aria-selected={i === current} onPointerMove={() => setAt(i)} onClick={() => run(c)}>
						<c.icon size={16} aria-hidden />
						<span class="cut">{c.text}</span>
						{c.more && <span class="cut faint small">{c.more}</span>}
					</li>
				))}
			</ul>
			<p class="palette-note" role="status">
				{visible.length === 0 ? "Nothing found" : found.length > shown ? `The first ${shown} of ${found.length}` : ""}
			</p>
		</Modal>
	);
}

export const Key = ({ children }: { children: ComponentChildren }) => <kbd class="key">{children}</kbd>;
/** paletteKey is the name of the key that opens the palette. */
export const paletteKey = /^Mac|^iP/.test(navigator.platform) ? "⌘K" : "Ctrl K";
