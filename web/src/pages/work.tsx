// The tabs of a sandbox with its services and network.
import { useState } from "preact/hooks";
import { Copy, ExternalLink, Globe, Link, Lock, OctagonX, Play, Plus, ScrollText } from "lucide-preact";
import { api, textOf, type NetworkRecord, type Port, type Sandbox, type Service } from "../api";
import { canWrite, useData } from "../data";
import { ago, bytes, capital, commandOf, exact } from "../format";
import { showError, toast } from "../messages";
import { ask, Bone, Button, copy, Empty, Fact, Field, FormModal, Menu, Modal, Notice, Panel, Status, Table } from "../ui";

export function Services({ box: b }: { box: Sandbox }) {
	const { value: all, error, reload: again } = useData(`sandbox/${b.id}/services`, (api) => api.services(b.id), 10);
	const ports = useData(`sandbox/${b.id}/service-ports`, (api) => api.servicePorts(b.id), 10);
	const [starting, setStarting] = useState(false);
	const [logs, setLogs] = useState<Service>();
	const refresh = () => Promise.all([again(), ports.reload()]);
	const stop = (s: Service) =>
		ask({
			title: `Stop ${s.service_name}?`,
			text: "Its program ends, and its previews show an error. You can start it again.",
			action: "Stop service",
			run: async () => {
				await api.stopService(b.id, s.service_name);
				await refresh();
			},
		});
	const start = canWrite.value && (
		<Button icon={Plus} onClick={() => setStarting(true)}>
			Start a service
		</Button>
	);
	return (
		<div class="page">
			<div class="row">
				<h2 class="grow">Services and previews</h2>
				{!!all?.length && start}
			</div>
			{error && <Notice>{textOf(error)}</Notice>}
			<section class="panel" aria-label="List of services" aria-busy={!all}>
				{!all && !error && (
					<div class="inner">
						<Bone w={240} />
					</div>
				)}
				{all?.length === 0 && (
					<Empty icon={Globe} title="No services" actions={start}>
						A service is a named program, such as a web server. The page links to a preview of its port.
					</Empty>
				)}
				{!!all?.length && (
					<Table columns={["Service", "State", "Program", "Previews"]} actions>
						{all.map((s) => (
							<tr key={s.service_name}>
								<td class="strong">{s.service_name}</td>
								<td title={s.state_reason}>
									<Status of={s.state === "running" ? "running" : s.state === "failed" ? "error" : "stopped"} text={s.state} />
								</td>
								<td class="mono dim">{commandOf(s.argv).slice(0, 200)}</td>
								<td>
									{ports.value
										?.filter((p) => p.service_name === s.service_name)
										.map((p) => <Preview key={p.port} id={b.id} port={p.port} />)}
								</td>
								<td class="end">
									<Button small kind="quiet" icon={ScrollText} label={`Logs of ${s.service_name}`} onClick={() => setLogs(s)}>
										Logs
									</Button>
									{canWrite.value && s.state === "running" && (
										<Button small kind="quiet" icon={OctagonX} label={`Stop ${s.service_name}`} onClick={() => stop(s)}>
											Stop
										</Button>
									)}
								</td>
							</tr>
						))}
					</Table>
				)}
			</section>
			{starting && <StartService id={b.id} onClose={() => setStarting(false)} onDone={refresh} />}
			{logs && <Logs id={b.id} service={logs} onClose={() => setLogs(undefined)} />}
		</div>
	);
}

function Preview({ id, port }: { id: string; port: number }) {
	const { value: p, reload: again } = useData(`sandbox/${id}/ports/${port}`, (api) => api.port(id, port));
	if (!p) return <Bone w={80} />;
	// Only addresses of previews are links.
	const safe = /^https?:\/\//.test(p.url);
	return (
		<span class="row">
			<a class="link row whole" href={safe ? p.url : undefined} target="_blank" rel="noopener noreferrer">
				:{port} <ExternalLink size={14} aria-label="opens in a new tab" />
			</a>
			{p.public && <span class="tag">Public</span>}
			{canWrite.value && (
				<Menu label={`Who may open port ${port}`} icon={Link} small>
					<PortActions id={id} port={p} again={again} />
				</Menu>
			)}
		</span>
	);
}

function PortActions({ id, port: p, again }: { id: string; port: Port; again: () => Promise<unknown> }) {
	const copyLink = () =>
		api
			.portLink(id, p.port)
			.then((l) => copy(l.url))
			.then((done) => done && toast("The link is copied. It works for an hour."))
			.catch(showError);
	const publish = () =>
		ask({
			title: `Make port ${p.port} public?`,
			text: "Everybody who knows the address can open it, without a login. A request resumes the sandbox if it is paused.",
			action: "Make public",
			danger: false,
			run: () => api.setPort(id, p.port, true).then(again),
		});
	const reset = () =>
		ask({
			title: p.public ? `Make port ${p.port} private?` : `End all links to port ${p.port}?`,
			text: "Only your team can open it then. The links that were made for it end.",
			action: p.public ? "Make private" : "End links",
			run: () => api.resetPort(id, p.port).then(again),
		});
	return (
		<>
			<button type="button" onClick={copyLink}>
				<Copy size={15} aria-hidden /> Copy a link that works for an hour
			</button>
			{!p.public && (
				<button type="button" onClick={publish}>
					<Globe size={15} aria-hidden /> Make public…
				</button>
			)}
			<button type="button" onClick={reset}>
				<Lock size={15} aria-hidden /> {p.public ? "Make private…" : "End all links…"}
			</button>
		</>
	);
}

function StartService({ id, onClose, onDone }: { id: string; onClose: () => void; onDone: () => Promise<unknown> }) {
	const start = async (form: FormData) => {
		const port = Number(form.get("port"));
		await api.startService(id, {
			service_name: String(form.get("name")).trim(),
			command: String(form.get("command")),
			...(port ? { readiness: { type: "tcp", target: String(port) } } : {}),
		});
		await onDone();
		onClose();
	};
	return (
		<FormModal title="Start a service" action="Start service" icon={Play} submit={start} onClose={onClose}>
			<Field label="Name">{(i) => <input id={i} class="input" name="name" required maxLength={64} pattern="[A-Za-z0-9._\-]+" autocomplete="off" placeholder="web" />}</Field>
			<Field label="Command" hint="Runs in /workspace with /bin/sh.">
				{(i, hint) => <input id={i} class="input mono" name="command" required autocomplete="off" spellcheck={false} aria-describedby={hint} placeholder="python3 -m http.server 8000" />}
			</Field>
			<Field label="Port" hint="Optional. The service is ready when it listens on this port, and gets a preview.">
				{(i, hint) => <input id={i} class="input" name="port" type="number" min={1} max={65535} aria-describedby={hint} placeholder="8000" />}
			</Field>
		</FormModal>
	);
}

function Logs({ id, service, onClose }: { id: string; service: Service; onClose: () => void }) {
	const { value, error } = useData(`sandbox/${id}/logs/${service.service_name}`, (api) => api.serviceLogs(id, service.service_name), 5);
	return (
		<Modal title={`Logs of ${service.service_name}`} class="large" onClose={onClose}>
			{error && <Notice>{textOf(error)}</Notice>}
			<pre class="logs" role="group" tabIndex={0} aria-label="Output">
				{value ? [value.stdout, value.stderr].filter(Boolean).join("\n") || "It has printed nothing." : " "}
			</pre>
		</Modal>
	);
}

export function Network({ box: b }: { box: Sandbox }) {
	const { value: r, error: failed } = useData(`sandbox/${b.id}/egress`, (api) => api.egress(b.id));
	const { value: all, error } = useData(`sandbox/${b.id}/network`, (api) => api.networkLog(b.id), 10);
	const policies: Record<string, string> = { off: "No network", egress: "Can connect to public addresses", published: "Can connect to public addresses, and has published ports" };
	const list = (values: string[] | undefined, none: string) => (values?.length ? values.map((v) => <code class="tag">{v}</code>) : none);
	return (
		<div class="page">
			<Panel title="Rules" error={failed}>
				<dl class="facts">
					<Fact name="Network" known={!!r}>
						{r && (policies[r.network_policy] ?? r.network_policy)}
					</Fact>
					<Fact name="Allowed addresses" known={!!r}>
						{list(r?.egress_allow, r?.network_policy === "off" ? "None" : "All public addresses")}
					</Fact>
					<Fact name="Exceptions, which are blocked" known={!!r}>
						{list(r?.egress_deny, "None")}
					</Fact>
				</dl>
			</Panel>
			<Panel title="Connections" loading={!all} error={error}>
				{all?.length === 0 && (
					<Empty icon={Globe} title="No connections yet">
						Connections, and attempts that the rules block, appear here.
					</Empty>
				)}
				{!!all?.length && (
					<Table columns={["Address", "Result", "Sent", "Received", "When"]}>
						{all
							.toReversed()
							.slice(0, 300)
							.map((r) => (
								<Connection record={r} />
							))}
					</Table>
				)}
			</Panel>
		</div>
	);
}

function Connection({ record: r }: { record: NetworkRecord }) {
	return (
		<tr>
			<td class="mono">
				{r.name || r.address}
				{r.port ? `:${r.port}` : ""} <span class="faint">{r.protocol}</span>
			</td>
			<td title={r.reason || r.error}>
				<span class={`status ${r.verdict === "allowed" ? "running" : "error"}`}>
					{capital(r.verdict)}
					{r.times > 1 && ` ${r.times} times`}
				</span>
			</td>
			<td class="dim num">{bytes(r.sent_bytes)}</td>
			<td class="dim num">{bytes(r.received_bytes)}</td>
			<td class="dim" title={exact(r.time)}>
				{ago(r.time)}
			</td>
		</tr>
	);
}
