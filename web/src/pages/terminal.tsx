// One terminal of a sandbox.
import { useEffect, useRef, useState } from "preact/hooks";
import { Terminal } from "@xterm/xterm";
import { FitAddon } from "@xterm/addon-fit";
import "@xterm/xterm/css/xterm.css";
import { openSocket } from "../api";
import { bytes, decode } from "../format";
import { toast } from "../messages";
import { Retry } from "../retry";
import { adoptStyles } from "../styles";

adoptStyles();

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
const mono = '"Geist Mono", ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, monospace';
const maxInput = 32 << 10; // characters of a frame; each has at most 4 bytes

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

const pageWindow = 512 << 10; // bytes of output that xterm.js has not shown yet
// CAN ends a sequence that was cut. The text is bright black, because dim text has too little
// contrast.
const skipped = (n: number) => `\x18\x1b[0m\r\n\x1b[90m[${bytes(n)} of output skipped]\x1b[0m\r\n`;

/** Holder is the client that types in a terminal. */
export interface Holder {
	name: string; // empty: nobody types
	key: boolean; // it is an API key, not a user
	yours: boolean;
	/** sameUser: it is this user, perhaps in another window. */
	sameUser: boolean;
	/** others is the number of other clients that use the terminal. */
	others: number;
}

/** Tab is a terminal that the page shows. */
export interface Tab {
	tag: string;
	mine: boolean; // this browser has started it or typed into it
	wants: boolean; // the user wants to type
	ended?: boolean;
	holder?: Holder;
}

export const nameOf = (t: { tag: string }) => t.tag.replace(/^term-(\d+)$/, "Terminal $1");
const whoOf = (h: Holder) => (h.sameUser ? "You" : h.key ? `The API key ${h.name}` : h.name);

/** Controls are functions of a terminal for the bar above it. */
export interface Controls {
	hold: () => void;
	release: () => void;
	kill: () => void;
}

interface Props {
	id: string;
	tab: Tab;
	shown: boolean;
	/** takesFocus: it gets the focus when it is shown. */
	takesFocus: boolean;
	/** spoken: a screen reader reads the output. */
	spoken: boolean;
	onChange: (to: Partial<Tab>) => void;
	onReady: (c: Controls) => void;
}

/** View is one terminal. It connects again when the connection is lost, and continues where it was. */
export function View({ id, tab, shown, takesFocus, spoken, onChange, onReady }: Props) {
	const typing = !!tab.holder?.yours;
	const host = useRef<HTMLDivElement>(null);
	const term = useRef<Terminal>();
	const fit = useRef<FitAddon>();
	const send = useRef((_: object) => {});
	const now = useRef({ typing, shown, wants: tab.wants, mine: tab.mine });
	now.current = { typing, shown, wants: tab.wants, mine: tab.mine };
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
			screenReaderMode: spoken,
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
		let unconfirmed = 0; // bytes that were shown, and that the server does not know to be shown
		let holder: Holder | undefined; // of this connection
		let asked = false; // to hold the terminal
		let socket: WebSocket | undefined;
		const retry = new Retry(300, 10_000);
		let over = false;

		const connect = () => {
			setState("connecting");
			const s = openSocket(id, "pty");
			socket = s;
			s.onopen = () => {
				f.fit();
				const options = { tag, window: pageWindow, holder: true };
				unconfirmed = 0;
				holder = undefined;
				if (started || exists) s.send(JSON.stringify({ type: "connect", ...options, offset }));
				else s.send(JSON.stringify({ type: "start", ...options, cols: t.cols, rows: t.rows, envs: { TERM: "xterm-256color", COLORTERM: "truecolor" } }));
			};
			s.onmessage = (e) => {
				const m = JSON.parse(e.data);
				switch (m.type) {
					case "started":
						retry.tries = 0;
						setState("open");
						started = true;
						if (now.current.shown) t.focus();
						break;
					case "output": {
						const data = decode(m.data ?? "");
						if (offset && m.offset > offset) t.write(skipped(m.offset - offset));
						offset = m.offset + data.length;
						t.write(data, () => {
							unconfirmed += data.length;
							if (unconfirmed < pageWindow / 4 || socket !== s) return;
							send.current({ type: "ack", bytes: unconfirmed });
							unconfirmed = 0;
						});
						break;
					}
					case "holder":
						hear({ name: m.holder ?? "", key: m.holder_type === "api_key", yours: m.yours, sameUser: m.same_user, others: m.others });
						break;
					case "exit":
						finish(m.exit_code);
						break;
					case "error":
						if (m.fatal && m.code === "conflict" && !started && !exists) {
							exists = true; // another browser or an earlier visit has started it
							s.onclose = null;
							s.close();
							connect();
						} else if (m.fatal && m.code === "not_found" && !started && tag.startsWith("term-") && retry.tries++ < 3) {
							exists = false; // its shell has ended
							s.onclose = null;
							s.close();
							connect();
						} else if (m.fatal && m.code === "not_found" && started) finish();
						else if (m.fatal && (retry.tries > 4 || m.code === "invalid_request")) {
							toast(m.data || "The terminal failed", true);
							finish();
						} else if (!m.fatal) toast(m.data, true);
				}
			};
			s.onclose = () => {
				if (over || socket !== s) return;
				setState("lost");
				retry.again(connect);
			};
		};
		/** hear handles the message of the server that names the holder. */
		const hear = (h: Holder) => {
			const before = holder;
			holder = h;
			now.current.typing = h.yours;
			t.options.disableStdin = !h.yours;
			onChange(h.yours ? { holder: h, mine: true } : { holder: h });
			const { wants, mine } = now.current;
			if (!before && wants && (h.yours || !h.name || (h.sameUser && mine))) hold(); // others can't type meanwhile
			else if (before?.name && wants && !h.name) send.current({ type: "hold" }); // the holder has left
			if (h.yours && !before?.yours) resize();
			if (h.yours && asked) {
				asked = false;
				if (now.current.shown) t.focus();
			} else if (h.yours && before && !before.yours) toast(`You type in ${nameOf(tab)} again`);
			else if (before?.yours && !h.yours && h.name) toast(h.sameUser ? `You type in ${nameOf(tab)} in another window now` : `${whoOf(h)} has taken over ${nameOf(tab)}`);
		};
		const hold = () => {
			asked = true;
			send.current({ type: "hold" });
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
			retry.stop();
			connect();
		};
		addEventListener("online", online);
		onReady({ hold, release: () => send.current({ type: "release" }), kill: () => send.current({ type: "kill" }) });
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
			retry.stop();
			clearTimeout(waiting);
			removeEventListener("online", online);
			size.disconnect();
			socket?.close();
			t.dispose();
		};
	}, []);

	useEffect(() => {
		term.current!.options.screenReaderMode = spoken;
	}, [spoken]);
	useEffect(() => {
		if (!term.current || !shown) return;
		fit.current?.fit();
		if (typing) send.current({ type: "resize", cols: term.current.cols, rows: term.current.rows });
		if (state === "open" && takesFocus) term.current.focus();
	}, [shown]);

	const h = tab.holder;
	const note =
		state === "ended"
			? code === undefined
				? "This terminal has ended."
				: `The shell ended with exit code ${code}.`
			: state === "lost"
				? "The connection was lost. Connecting again…"
				: state === "open" && h && !typing
					? `You only watch. ${h.sameUser ? "You type in another window" : h.name ? `${whoOf(h)} types` : "Nobody types"}. Choose Type to take over.`
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
