import { useEffect, useRef, useState } from "preact/hooks";
import { Eye, Keyboard, Plus, SquareTerminal, X } from "lucide-preact";
import { Terminal } from "@xterm/xterm";
import { FitAddon } from "@xterm/addon-fit";
import "@xterm/xterm/css/xterm.css";
import type { Sandbox } from "../api";
import { canWrite } from "../data";
import { adoptStyles } from "../styles";
import { toast } from "../messages";
import { ask, Button, Empty } from "../ui";

adoptStyles();

/**
 * Terminals of this page have the tags term-1, term-2 and so on. So browsers that open the same
 * sandbox find each other's terminals.
 */
const tagOf = (n: number) => `term-${n}`;
const maxTabs = 16;

interface Tab {
	tag: string;
	mine: boolean; // this browser has started it or typed into it
	typing: boolean;
	ended?: boolean;
}

const storageKey = (id: string) => `terminals/${id}`;

/** stored returns the tabs that this browser had, and a tab that the address names. */
function stored(id: string): Tab[] {
	let tags: unknown;
	try {
		tags = JSON.parse(localStorage.getItem(storageKey(id)) ?? "[]");
	} catch {} // then there are none
	const all: Tab[] = (Array.isArray(tags) ? tags : []).filter((t) => typeof t === "string").slice(0, maxTabs).map((tag) => ({ tag, mine: true, typing: true }));
	const named = new URLSearchParams(location.search).get("tag");
	if (named && !all.some((t) => t.tag === named)) all.unshift({ tag: named, mine: false, typing: false });
	if (!all.length && canWrite.value) all.push({ tag: tagOf(1), mine: false, typing: true });
	return all;
}

/** Terminals shows the terminals of a sandbox. Browsers that open the same sandbox share them. */
export function Terminals({ box: b }: { box: Sandbox }) {
	const [tabs, setTabs] = useState(() => stored(b.id));
	const [at, setAt] = useState(tabs[0]?.tag ?? "");
	const kills = useRef(new Map<string, () => void>());

	useEffect(() => {
		try {
			localStorage.setItem(storageKey(b.id), JSON.stringify(tabs.filter((t) => t.mine && !t.ended).map((t) => t.tag)));
		} catch {} // the page then opens with the first terminal
	}, [tabs]);

	const open = () => {
		let n = 1;
		while (tabs.some((t) => t.tag === tagOf(n))) n++;
		setTabs([...tabs, { tag: tagOf(n), mine: false, typing: true }]);
		setAt(tagOf(n));
	};
	const change = (tag: string, to: Partial<Tab>) => setTabs((all) => all.map((t) => (t.tag === tag ? { ...t, ...to } : t)));
	const drop = (tag: string) => {
		const left = tabs.filter((t) => t.tag !== tag);
		setTabs(left);
		if (at === tag) setAt(left.at(-1)?.tag ?? "");
	};
	const close = (t: Tab) => {
		if (t.ended || !t.mine) return drop(t.tag);
		void ask({
			title: `Close ${nameOf(t)}?`,
			text: "This ends its shell and the programs in it, also for other people who look at it.",
			action: "Close terminal",
			run: async () => {
				kills.current.get(t.tag)?.();
				drop(t.tag);
			},
		});
	};
	const nameOf = (t: Tab) => t.tag.replace(/^term-(\d+)$/, "Terminal $1");
	const current = tabs.find((t) => t.tag === at);

	return (
		<div class="terms">
			<div class="terms-bar">
				{tabs.length > 0 && (
					<div class="row" role="tablist" aria-label="Terminals">
						{tabs.map((t) => (
							<div class="term-tab" role="presentation">
								<button type="button" role="tab" id={`tab-${t.tag}`} aria-selected={t.tag === at} aria-controls={`panel-${t.tag}`} onClick={() => setAt(t.tag)}>
									{nameOf(t)}
									{t.ended && " (ended)"}
								</button>
							</div>
						))}
					</div>
				)}
				{canWrite.value && tabs.length < maxTabs && <Button kind="quiet" small icon={Plus} label="New terminal" onClick={open} />}
				{current && (
					<>
						<div class="segments" role="group" aria-label="Who types">
							<button type="button" aria-pressed={!current.typing} onClick={() => change(at, { typing: false })} title="Give back: only look. An agent or another person types.">
								<Eye size={14} aria-hidden />
								Watch
							</button>
							<button
								type="button"
								class="take"
								aria-pressed={current.typing}
								disabled={!canWrite.value}
								onClick={() => change(at, { typing: true, mine: true })}
								title="Take over: your keys go to the terminal."
							>
								<Keyboard size={14} aria-hidden />
								Type
							</button>
						</div>
						<Button kind="quiet" small icon={X} label={`Close ${nameOf(current)}`} onClick={() => close(current)} />
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
						typing={t.typing && canWrite.value}
						onChange={(to) => change(t.tag, to)}
						onKill={(kill) => kills.current.set(t.tag, kill)}
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

const theme = {
	background: "#141312",
	foreground: "#e9e5e0",
	cursor: "#f2733a",
	cursorAccent: "#141312",
	selectionBackground: "#4a3a30",
	black: "#2a2725",
	red: "#f0757b",
	green: "#6cc788",
	yellow: "#e2b04a",
	blue: "#7cb0f0",
	magenta: "#cf9be8",
	cyan: "#6cc5c9",
	white: "#d6d0c9",
	brightBlack: "#8d857d",
	brightRed: "#ff9a9e",
	brightGreen: "#93dda8",
	brightYellow: "#f3cb77",
	brightBlue: "#a5cbfa",
	brightMagenta: "#e3bff5",
	brightCyan: "#98dfe2",
	brightWhite: "#ffffff",
};

const encode = (text: string) => btoa(Array.from(new TextEncoder().encode(text), (b) => String.fromCharCode(b)).join(""));
const decode = (data: string) => Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
const mono = '"Geist Mono", ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, monospace';
const maxInput = 32 << 10; // characters of a frame, of which each has at most 4 bytes

const keys = [
	["Esc", "\x1b"],
	["Tab", "\t"],
	["^C", "\x03"],
	["^D", "\x04"],
	["↑", "\x1b[A"],
	["↓", "\x1b[B"],
	["←", "\x1b[D"],
	["→", "\x1b[C"],
];

interface ViewProps {
	id: string;
	tab: Tab;
	shown: boolean;
	typing: boolean;
	onChange: (to: Partial<Tab>) => void;
	onKill: (kill: () => void) => void;
}

/** View is one terminal. It connects again when the connection is lost, and continues where it was. */
function View({ id, tab, shown, typing, onChange, onKill }: ViewProps) {
	const host = useRef<HTMLDivElement>(null);
	const term = useRef<Terminal>();
	const fit = useRef<FitAddon>();
	const send = useRef((_: object) => {});
	const now = useRef({ typing, shown });
	now.current = { typing, shown };
	const [state, setState] = useState<"connecting" | "open" | "lost" | "ended">("connecting");
	const [code, setCode] = useState<number>();

	useEffect(() => {
		const t = new Terminal({
			fontFamily: "monospace",
			fontSize: 13,
			lineHeight: 1.25,
			theme,
			cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
			scrollback: 10000,
			screenReaderMode: false,
			macOptionIsMeta: true,
			allowProposedApi: false,
		});
		const f = new FitAddon();
		t.loadAddon(f);
		t.open(host.current!);
		t.textarea?.setAttribute("aria-label", "Terminal input");
		term.current = t;
		fit.current = f;
		const tag = tab.tag;
		let started = false; // then continue at offset
		let exists = tab.mine || !tag.startsWith("term-"); // then connect to it
		let offset = 0;
		let socket: WebSocket | undefined;
		let tries = 0;
		let over = false;
		let timer: ReturnType<typeof setTimeout> | undefined;

		const connect = () => {
			setState("connecting");
			const s = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/sandboxes/${encodeURIComponent(id)}/pty`);
			socket = s;
			s.onopen = () => {
				f.fit();
				const size = { cols: t.cols, rows: t.rows };
				if (started || exists) s.send(JSON.stringify({ type: "connect", tag, offset }));
				else s.send(JSON.stringify({ type: "start", tag, ...size, envs: { TERM: "xterm-256color", COLORTERM: "truecolor" } }));
			};
			s.onmessage = (e) => {
				const m = JSON.parse(e.data);
				switch (m.type) {
					case "started":
						tries = 0;
						setState("open");
						if (!started && exists && !tab.mine) {
							now.current.typing = false;
							onChange({ typing: false });
						} else if (!started) onChange({ mine: true });
						started = true;
						resize();
						if (now.current.shown) t.focus();
						break;
					case "output": {
						const data = decode(m.data ?? "");
						if (typeof m.offset === "number") offset = m.offset + data.length;
						t.write(data);
						break;
					}
					case "exit":
						finish(m.exit_code);
						break;
					case "error":
						if (m.fatal && m.code === "conflict" && !started && !exists) {
							exists = true; // another browser or an earlier visit has started it
							s.onclose = null;
							s.close();
							connect();
						} else if (m.fatal && m.code === "not_found" && !started && tag.startsWith("term-") && tries++ < 3) {
							exists = false; // its shell has ended
							s.onclose = null;
							s.close();
							connect();
						} else if (m.fatal && m.code === "not_found" && started) finish();
						else if (m.fatal && (tries > 4 || m.code === "invalid_request")) {
							toast(m.data || "The terminal failed", true);
							finish();
						} else if (!m.fatal) toast(m.data, true);
				}
			};
			s.onclose = () => {
				if (over || socket !== s) return;
				setState("lost");
				timer = setTimeout(connect, Math.min(10000, 300 * 2 ** tries++));
			};
		};
		const finish = (exit?: number) => {
			over = true;
			setCode(exit);
			setState("ended");
			onChange({ ended: true });
			socket?.close();
		};
		send.current = (frame) => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(frame));
		const resize = () => {
			if (!host.current?.clientWidth) return;
			f.fit();
			if (now.current.typing) send.current({ type: "resize", cols: t.cols, rows: t.rows });
		};
		t.onData((text) => {
			if (!now.current.typing) return;
			for (let i = 0; i < text.length; ) {
				let end = Math.min(text.length, i + maxInput);
				if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1])) end--; // not inside of a pair
				send.current({ type: "input", data: encode(text.slice(i, end)) });
				i = end;
			}
		});
		t.onBinary((text) => now.current.typing && send.current({ type: "input", data: btoa(text) }));
		// Otherwise a keyboard could not leave the terminal: Escape and then Tab moves on.
		let escaped = false;
		t.attachCustomKeyEventHandler((e) => {
			if (e.type !== "keydown") return true;
			if (e.key === "Tab" && (escaped || !now.current.typing)) return false;
			if (e.key !== "Shift") escaped = e.key === "Escape";
			return true;
		});
		let waiting: ReturnType<typeof setTimeout> | undefined;
		const size = new ResizeObserver(() => {
			clearTimeout(waiting);
			waiting = setTimeout(resize, 60);
		});
		size.observe(host.current!);
		const online = () => {
			if (over || socket?.readyState === WebSocket.OPEN || socket?.readyState === WebSocket.CONNECTING) return;
			clearTimeout(timer);
			connect();
		};
		addEventListener("online", online);
		onKill(() => send.current({ type: "kill" }));
		// The size of a character is measured with the font that the terminal uses.
		void document.fonts
			.load(`13px "Geist Mono"`)
			.catch(() => {})
			.then(() => {
				if (over) return;
				t.options.fontFamily = mono;
				f.fit();
				connect();
			});
		return () => {
			over = true;
			clearTimeout(timer);
			clearTimeout(waiting);
			removeEventListener("online", online);
			size.disconnect();
			socket?.close();
			t.dispose();
		};
	}, []);

	useEffect(() => {
		if (!term.current) return;
		term.current.options.disableStdin = !typing;
		if (shown) {
			fit.current?.fit();
			if (typing) send.current({ type: "resize", cols: term.current.cols, rows: term.current.rows });
			if (state === "open") term.current.focus();
		}
	}, [typing, shown]);

	const note =
		state === "ended"
			? code === undefined
				? "This terminal has ended."
				: `The shell ended with exit code ${code}.`
			: state === "lost"
				? "The connection was lost. Connecting again…"
				: state === "open" && !typing
					? "You only watch. Choose Type to take over."
					: "";
	return (
		<div class={`term-view ${shown ? "" : "hidden"}`} role="tabpanel" id={`panel-${tab.tag}`} aria-labelledby={`tab-${tab.tag}`} aria-hidden={!shown}>
			<div class="term-host">
				<div class="term" ref={host} />
			</div>
			<div class="term-note" hidden={!note} role="status">
				{note}
			</div>
			{typing && state === "open" && (
				<div class="term-keys" role="group" aria-label="Keys">
					{keys.map(([name, text]) => (
						<button
							type="button"
							onPointerDown={(e) => e.preventDefault()}
							onClick={() => {
								send.current({ type: "input", data: encode(text) });
								term.current?.focus();
							}}
						>
							{name}
						</button>
					))}
				</div>
			)}
		</div>
	);
}
