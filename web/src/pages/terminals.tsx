import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Accessibility, Eye, Keyboard, List, Plus, SquareTerminal, Users, X } from "lucide-preact";
import type { Sandbox } from "../api";
import { canWrite, useData } from "../data";
import { ago, plural } from "../format";
import { ask, Button, Empty, Menu } from "../ui";
import { type Controls, nameOf, type Tab, View } from "./terminal";

/**
 * Terminals of this page have the tags term-1, term-2 and so on. So browsers that open the same
 * sandbox find each other's terminals.
 */
const tagOf = (n: number) => `term-${n}`;
const maxTabs = 16;

const readerKey = "screen-reader";

/** readerStored reports whether a screen reader reads the terminals of this browser. */
function readerStored(): boolean {
	try {
		return localStorage.getItem(readerKey) === "on";
	} catch {
		return false;
	}
}

const storageKey = (id: string) => `terminals/${id}`;

/** stored returns the tabs that this browser had, and a tab that the address names. */
function stored(id: string): Tab[] {
	let tags: unknown;
	try {
		tags = JSON.parse(localStorage.getItem(storageKey(id)) ?? "[]");
	} catch {} // then there are none
	const all: Tab[] = (Array.isArray(tags) ? tags : []).filter((t) => typeof t === "string").slice(0, maxTabs).map((tag) => ({ tag, mine: true, wants: true }));
	const named = new URLSearchParams(location.search).get("tag");
	if (named && !all.some((t) => t.tag === named)) all.unshift({ tag: named, mine: false, wants: false });
	if (!all.length && canWrite.value) all.push({ tag: tagOf(1), mine: false, wants: true });
	return all;
}

/** Terminals shows the terminals of a sandbox. Browsers that open the same sandbox share them. */
export function Terminals({ box: b }: { box: Sandbox }) {
	const [tabs, setTabs] = useState(() => stored(b.id));
	const [at, setAt] = useState(tabs[0]?.tag ?? "");
	const controls = useRef(new Map<string, Controls>());
	const { value: all } = useData(`sandbox/${b.id}/terminals`, (api) => api.terminals(b.id));
	const others = canWrite.value && tabs.length < maxTabs ? (all?.filter((t) => !tabs.some((o) => o.tag === t.tag)) ?? []) : [];

	useEffect(() => {
		try {
			localStorage.setItem(storageKey(b.id), JSON.stringify(tabs.filter((t) => t.mine && !t.ended).map((t) => t.tag)));
		} catch {} // the page then opens with the first terminal
	}, [tabs]);

	// xterm.js then describes its output to screen readers, which takes time.
	const [spoken, setSpoken] = useState(readerStored);
	useEffect(() => {
		try {
			localStorage.setItem(readerKey, spoken ? "on" : "off");
		} catch {} // the choice then lasts until the page is closed
	}, [spoken]);

	// After a terminal was closed, the tab of the next one gets the focus.
	const [closed, setClosed] = useState(false);
	const bar = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		if (closed) bar.current!.querySelector<HTMLElement>("[aria-selected=true], .new")?.focus();
	}, [tabs.length]);
	const show = (tag: string) => {
		setClosed(false);
		setAt(tag);
	};

	const open = () => {
		let n = 1;
		while (tabs.some((t) => t.tag === tagOf(n))) n++;
		setTabs([...tabs, { tag: tagOf(n), mine: false, wants: true }]);
		show(tagOf(n));
	};
	const watch = (tag: string) => {
		setTabs([...tabs, { tag, mine: false, wants: false }]);
		show(tag);
	};
	const change = (tag: string, to: Partial<Tab>) => setTabs((all) => all.map((t) => (t.tag === tag ? { ...t, ...to } : t)));
	const drop = (tag: string) => {
		const i = tabs.findIndex((t) => t.tag === tag);
		setTabs((all) => all.filter((t) => t.tag !== tag));
		setClosed(true);
		setAt((tabs[i + 1] ?? tabs[i - 1])?.tag ?? "");
	};
	const close = async (t: Tab) => {
		const ends = !t.ended && t.mine && t.holder?.yours; // only the holder ends it
		const question = {
			title: `Close ${nameOf(t)}?`,
			text: "This ends its shell and the programs in it, also for other people who look at it.",
			action: "Close terminal",
			run: async () => controls.current.get(t.tag)?.kill(),
		};
		if (!ends || (await ask(question))) drop(t.tag);
	};
	const current = tabs.find((t) => t.tag === at);
	const typing = current?.holder ? current.holder.yours : !!current?.wants;

	return (
		<div class="terms">
			<div class="terms-bar" ref={bar}>
				{tabs.length > 0 && (
					<div class="row" role="tablist" aria-label="Terminals">
						{tabs.map((t) => (
							<div class="term-tab" role="presentation">
								<button type="button" role="tab" id={`tab-${t.tag}`} aria-selected={t.tag === at} aria-controls={`panel-${t.tag}`} onClick={() => show(t.tag)}>
									{nameOf(t)}
									{t.ended && " (ended)"}
								</button>
							</div>
						))}
					</div>
				)}
				{canWrite.value && tabs.length < maxTabs && <Button kind="quiet" small class="new" icon={Plus} label="New terminal" onClick={open} />}
				{others.length > 0 && (
					<Menu label={plural(others.length, "other terminal")} worded icon={List} small>
						{others.map((t) => (
							<button type="button" key={t.tag} onClick={() => watch(t.tag)}>
								<Eye size={16} aria-hidden />
								<span class="cut grow">{nameOf(t)}</span>
								<span class="faint small">{ago(t.opened_at)}</span>
							</button>
						))}
					</Menu>
				)}
				{current && (
					<>
						{!!current.holder?.others && (
							<span class="term-others num" title={`${plural(current.holder.others, "other window or program has", "other windows or programs have")} this terminal open`}>
								<Users size={14} aria-label="Others who look at it:" />
								{current.holder.others}
							</span>
						)}
						<div class="segments" role="group" aria-label="Who types">
							<button
								type="button"
								aria-pressed={!typing}
								onClick={() => {
									change(at, { wants: false });
									controls.current.get(at)?.release();
								}}
								title="Give back: only look. An agent or another person types."
							>
								<Eye size={14} aria-hidden />
								Watch
							</button>
							<button
								type="button"
								class="take"
								aria-pressed={typing}
								disabled={!canWrite.value}
								onClick={() => {
									change(at, { wants: true, mine: true });
									controls.current.get(at)?.hold();
								}}
								title="Take over: your keys go to the terminal."
							>
								<Keyboard size={14} aria-hidden />
								Type
							</button>
						</div>
						<Button
							kind="quiet"
							small
							icon={Accessibility}
							label="Screen reader"
							title="Screen reader: it reads the output of the terminals"
							aria-pressed={spoken}
							onClick={() => setSpoken(!spoken)}
						/>
						<Button kind="quiet" small icon={X} label={`Close ${nameOf(current)}`} onClick={() => void close(current)} />
					</>
				)}
			</div>
			<div class="term-body">
				{tabs.map((t) => (
					<View
						key={t.tag}
						id={b.id}
						tab={t}
						shown={t.tag === at}
						takesFocus={!closed}
						spoken={spoken}
						onChange={(to) => change(t.tag, to)}
						onReady={(c) => controls.current.set(t.tag, c)}
					/>
				))}
				{tabs.length === 0 && (
					<Empty icon={SquareTerminal} title="No terminal is open" actions={canWrite.value && <Button onClick={open}>Open a terminal</Button>}>
						Terminals stay open when you leave this page.
					</Empty>
				)}
			</div>
		</div>
	);
}
