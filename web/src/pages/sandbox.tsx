import type { ComponentChildren, ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { CircleOff, Ellipsis, Pause, Play } from "lucide-preact";
import { textOf, type Sandbox } from "../api";
import { activity, canWrite, hrefOf, nameOf, useData } from "../data";
import { useActivity } from "../events";
import { ago, cores, duration, exact, megabytes } from "../format";
import { lazy } from "../lazy";
import { go, part } from "../router";
import { tabs } from "../tabs";
import { Bone, Button, Copied, Empty, Fact, Menu, Notice, Status } from "../ui";
import { Programs } from "./programs";
import { Actions, ApiRequest, isToggled, toggle } from "./sandboxes";

const Files = lazy(() => import("./files").then((m) => m.Files));
const Terminals = lazy(() => import("./terminals").then((m) => m.Terminals));
const Metrics = lazy(() => import("./metrics").then((m) => m.Metrics));
const Changes = lazy(() => import("./changes").then((m) => m.Changes));
const Services = lazy(() => import("./work").then((m) => m.Services));
const Commands = lazy(() => import("./commands").then((m) => m.Commands));
const Network = lazy(() => import("./work").then((m) => m.Network));

/** views are the parts of the page. awake: the part needs a running sandbox. */
const views: Record<string, { view: ComponentType<{ box: Sandbox }>; awake?: boolean }> = {
	terminal: { view: Terminals, awake: true },
	files: { view: Files, awake: true },
	changes: { view: Changes, awake: true },
	services: { view: Services, awake: true },
	network: { view: Network },
	metrics: { view: Metrics },
};

export function SandboxPage() {
	const id = part(1);
	const tab = part(2);
	const { value: b, error } = useData(`sandbox/${id}`, (api) => api.sandbox(id), activity);
	useActivity(id, b?.status === "running");
	const busy = isToggled(id);
	const change = () => b && toggle(b);
	const name = b ? nameOf(b) : id;
	useEffect(() => {
		document.title = `${name} · pyro`;
	}, [name]);
	const bar = useRef<HTMLElement>(null);
	// On a phone, the bar is wider than the window.
	useEffect(() => bar.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [tab]);
	if (error?.status === 404)
		return (
			<Empty
				icon={CircleOff}
				title={b ? `${name} was deleted` : "There is no such sandbox"}
				actions={
					<a class="button" href="/">
						Go to the sandboxes
					</a>
				}
			>
				{b ? "Somebody deleted this sandbox." : "It was deleted, or it belongs to another team."}
			</Empty>
		);
	const base = hrefOf(id);
	const { view: View, awake } = views[tab] ?? {};
	const view = b && View && <View key={tab} box={b} />;
	return (
		<div class={`detail ${tab === "terminal" || tab === "files" ? "fixed" : ""}`}>
			<header class="detail-head">
				<nav class="crumbs" aria-label="Breadcrumbs">
					<a href="/">Sandboxes</a>
					<span aria-hidden="true">/</span>
				</nav>
				<div class="detail-title">
					<h1 tabIndex={-1} class="cut">
						{b ? name : <Bone w={180} h={20} />}
					</h1>
					{b && <Status of={b.status} pill />}
				</div>
				<div class="row">
					{canWrite.value && b?.status === "running" && (
						<Button icon={Pause} busy={busy} onClick={change}>
							Pause
						</Button>
					)}
					{canWrite.value && b?.status === "paused" && (
						<Button kind="primary" icon={Play} busy={busy} onClick={change}>
							Resume
						</Button>
					)}
					{b && (
						<Menu label="More actions" icon={Ellipsis}>
							<Actions box={b} onDeleted={() => go("/")} />
						</Menu>
					)}
				</div>
			</header>
			<nav class="tabs" ref={bar} aria-label="Parts of the sandbox">
				{tabs.map((t) => (
					<a href={t.name ? `${base}/${t.name}` : base} aria-current={t.name === tab ? "page" : undefined}>
						{t.text}
					</a>
				))}
			</nav>
			{error && (
				<div class="pad">
					<Notice>{textOf(error)}</Notice>
				</div>
			)}
			{tab === "" && <Overview id={id} box={b} />}
			{awake ? (
				<Awake box={b} what={tab} resume={change} busy={busy}>
					{view}
				</Awake>
			) : (
				view
			)}
		</div>
	);
}

/** Awake shows a part that needs a running sandbox. */
function Awake({ box: b, what, resume, busy, children }: { box?: Sandbox; what: string; resume: () => void; busy: boolean; children: ComponentChildren }) {
	if (!b) return <div class="grow" aria-busy="true" />;
	if (b.status === "running") return <>{children}</>;
	if (b.status === "paused")
		return (
			<Empty
				icon={Pause}
				title="This sandbox is paused"
				actions={
					canWrite.value && (
						<Button kind="primary" icon={Play} busy={busy} onClick={resume}>
							Resume
						</Button>
					)
				}
			>
				Its memory is saved on disk, and its programs wait. Resume it to open its {what}.
			</Empty>
		);
	return (
		<Empty icon={CircleOff} title={`This sandbox is ${b.status}`}>
			{b.status === "missing" ? "The host has lost it. Delete it, and create another one." : "It opens when the sandbox runs."}
		</Empty>
	);
}

function Overview({ id, box: b }: { id: string; box?: Sandbox }) {
	const known = !!b;
	const labels = Object.entries(b?.metadata ?? {}).filter(([k]) => k !== "name");
	return (
		<div class="page">
			<section class="panel" aria-label="Facts">
				<dl class="facts">
					<Fact name="ID" known={known} wide>
						<span class="row">
							<span class="mono">{id}</span>
							<Copied text={id} label="Copy the ID" />
						</span>
					</Fact>
					<Fact name="Environment" known={known}>
						<span class="mono">{b?.template}</span>
					</Fact>
					<Fact name="Processors and memory" known={known}>
						{b && `${cores(b.vcpus)} · ${megabytes(b.memory_mb)}`}
					</Fact>
					<Fact name="Disk" known={known}>
						{b && `Up to ${megabytes(b.disk_mb)}`}
					</Fact>
					<Fact name="Created" known={known}>
						<span title={exact(b?.created_at)}>{ago(b?.created_at)}</span>
					</Fact>
					<Fact name="Last active" known={known}>
						<span title={exact(b?.last_active_at)}>{ago(b?.last_active_at)}</span>
					</Fact>
					<Fact name="Pauses by itself" known={known}>
						{b?.timeout_sec ? `After ${duration(b.timeout_sec)} without use` : "Never"}
					</Fact>
					{b?.parent_id && (
						<Fact name="Fork of" known wide>
							<a class="link mono" href={hrefOf(b.parent_id)}>
								{b.parent_id}
							</a>
						</Fact>
					)}
					{labels.map(([k, v]) => (
						<Fact name={k} known>
							{v}
						</Fact>
					))}
				</dl>
			</section>
			{b?.status === "running" && <Programs id={id} />}
			{b && <Commands id={id} />}
			<ApiRequest title="Use it from a program" label="A request that runs a program" path={`/v1/sandboxes/${id}/exec`} body={`{"cmd": "uname", "args": ["-a"]}`} />
		</div>
	);
}
