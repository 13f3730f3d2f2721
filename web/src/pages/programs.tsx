// Programs that run in the background of a sandbox, and their output.
import { useEffect, useRef, useState } from "preact/hooks";
import { OctagonX, ScrollText } from "lucide-preact";
import { api, ApiError, openSocket, textOf, type Process } from "../api";
import { canWrite, reload, useData } from "../data";
import { bytes, commandOf, decode } from "../format";
import { Retry } from "../retry";
import { ask, Button, Modal, Panel, Status, Table, useAction } from "../ui";

const argvOf = (p: Process) => [p.cmd, ...p.args];
const lineOf = (p: Process) => commandOf(argvOf(p));

export function Programs({ id }: { id: string }) {
	const { value: all, error } = useData(`sandbox/${id}/processes`, (api) => api.processes(id), 10);
	const [shown, setShown] = useState<Process>();
	const stop = (p: Process) =>
		ask({
			title: `Stop ${p.tag}?`,
			text: (
				<>
					The program <code>{lineOf(p).slice(0, 200)}</code> gets the signal SIGTERM.
				</>
			),
			action: "Stop program",
			run: async () => {
				await api.kill(id, String(p.pid), "SIGTERM");
				await reload(`sandbox/${id}/processes`);
			},
		});
	return (
		<Panel title="Programs in the background" loading={!all} error={error}>
			{all?.length === 0 && <p class="inner dim">None. Programs that run in the background appear here.</p>}
			{!!all?.length && (
				<Table columns={["Program", "Tag", "PID"]} actions>
					{all.map((p) => (
						<tr key={p.pid}>
							<td class="mono" title={argvOf(p).join(" ").slice(0, 2000)}>
								{lineOf(p).slice(0, 300)}
							</td>
							<td class="dim mono">{p.tag}</td>
							<td class="dim num">{p.pid}</td>
							<td class="end">
								{canWrite.value && (
									<>
										<Button small kind="quiet" icon={ScrollText} label={`Output of ${p.tag}`} onClick={() => setShown(p)}>
											Output
										</Button>
										<Button small kind="quiet" icon={OctagonX} label={`Stop ${p.tag}`} onClick={() => stop(p)}>
											Stop
										</Button>
									</>
								)}
							</td>
						</tr>
					))}
				</Table>
			)}
			{shown && <Output id={id} program={shown} onClose={() => setShown(undefined)} />}
		</Panel>
	);
}

/** maxShown is how many characters of output are in the document. */
const maxShown = 100_000;
const pageWindow = 128 << 10; // bytes of output that are not in the document yet
const drawTime = 100; // at least, between two changes of the document, in milliseconds
// Sequences of terminals, such as colours, and the start of one at the end of a text.
const sequences = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[^[\]])/g;
const cut = /\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,200})?$/;

/** Output follows the output of a program until it ends. */
function Output({ id, program: p, onClose }: { id: string; program: Process; onClose: () => void }) {
	const host = useRef<HTMLPreElement>(null);
	const [end, setEnd] = useState<{ code?: number; why: string }>();
	const [lost, setLost] = useState(false);
	const [asked, setAsked] = useState(false);
	const [busy, kill] = useAction(async () => {
		await api.kill(id, String(p.pid), asked ? "SIGKILL" : "SIGTERM");
		setAsked(true);
	});
	useEffect(() => {
		const next = { stdout: 0, stderr: 0 }; // offsets
		const rest = { stdout: "", stderr: "" }; // sequences that were cut
		let waiting: { kind: string; text: string }[] = [];
		let size = 0;
		let unconfirmed = 0;
		let drawing: ReturnType<typeof setTimeout> | undefined;
		let pause = drawTime; // before the next change
		let socket: WebSocket;
		const retry = new Retry(500, 30_000);
		let over = false;
		const draw = () => {
			drawing = undefined;
			const began = performance.now();
			const pre = host.current!;
			const follows = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
			for (const { kind, text } of waiting) {
				const part = document.createElement("span");
				part.className = kind;
				part.textContent = text;
				pre.append(part);
				size += text.length;
			}
			waiting = [];
			while (size > maxShown && pre.childElementCount > 1) {
				size -= pre.firstElementChild!.textContent!.length;
				pre.firstElementChild!.remove();
			}
			const height = pre.scrollHeight; // computes the layout, which takes most of the time
			if (follows) pre.scrollTop = height;
			// The page must react while a program prints without end.
			pause = Math.max(drawTime, 4 * (performance.now() - began));
			if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: "ack", bytes: unconfirmed }));
			unconfirmed = 0;
		};
		const add = (kind: string, text: string) => {
			const last = waiting.at(-1);
			if (last?.kind === kind && last.text.length < maxShown / 4) last.text += text;
			else if (text) waiting.push({ kind, text });
			drawing ??= setTimeout(draw, pause);
		};
		const hear = (kind: "stdout" | "stderr", m: { data: string; encoding?: string; offset: number }) => {
			const binary = m.encoding === "base64" ? decode(m.data) : undefined;
			const length = (binary ?? new TextEncoder().encode(m.data)).length;
			if (m.offset > next[kind]) add("gap", `[${bytes(m.offset - next[kind])} of output skipped]\n`);
			next[kind] = m.offset + length;
			unconfirmed += length;
			const text = rest[kind] + (binary ? new TextDecoder().decode(binary) : m.data);
			rest[kind] = cut.exec(text)?.[0] ?? "";
			const whole = text.slice(0, text.length - rest[kind].length);
			add(kind, whole.replace(sequences, "").replace(/\r\n?/g, "\n"));
		};
		const finish = (code: number | undefined, why: string) => {
			over = true;
			setEnd({ code, why });
			void reload(`sandbox/${id}/processes`);
		};
		const connect = () => {
			unconfirmed = 0;
			socket = openSocket(id, `processes/${p.pid}/stream?stdout_offset=${next.stdout}&stderr_offset=${next.stderr}&window=${pageWindow}`);
			socket.onmessage = (e) => {
				const m = JSON.parse(e.data);
				setLost(false);
				retry.tries = 0;
				if (m.type === "stdout" || m.type === "stderr") hear(m.type, m);
				else if (m.type === "exit") finish(m.exit_code, m.error ?? "");
				else if (m.type === "error" && m.code !== "host_unavailable") finish(undefined, textOf(new ApiError(0, m.code, m.data, m.hint)));
			};
			socket.onclose = () => {
				if (over) return;
				setLost(true);
				retry.again(connect);
			};
		};
		connect();
		return () => {
			over = true;
			retry.stop();
			clearTimeout(drawing);
			socket.onmessage = null;
			socket.close();
		};
	}, []);
	const state = end ? (end.code === undefined ? end.why : `Ended with exit code ${end.code}${end.why ? `: ${end.why}` : ""}`) : lost ? "The connection was lost. Connecting again…" : "";
	return (
		<Modal title={`Output of ${p.tag}`} class="wide" onClose={onClose}>
			<p class="mono dim small cut" title={argvOf(p).join(" ")}>
				{lineOf(p)}
			</p>
			<pre ref={host} class="logs follow" role="group" tabIndex={0} aria-label="Output" />
			<div class="row output-end">
				<span class="grow" role="status">
					{state ? <span class={end && end.code !== 0 ? "failed" : "dim"}>{state}</span> : <Status of="running" />}
				</span>
				{!end && (
					<Button kind={asked ? "danger" : undefined} icon={OctagonX} busy={busy} onClick={kill}>
						{asked ? "Kill program" : "Stop program"}
					</Button>
				)}
			</div>
		</Modal>
	);
}
