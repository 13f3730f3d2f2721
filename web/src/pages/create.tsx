import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Plus, X } from "lucide-preact";
import { api, newRequestKey, type NewSandbox, type Template } from "../api";
import { hrefOf, reload, useSandboxes } from "../data";
import { cores, megabytes } from "../format";
import { go } from "../router";
import { Button, Field, FormModal } from "../ui";

const environments = [
	{ value: "debian:12", text: "Debian 12 with Git and Python" },
	{ value: "debian:12-build", text: "Debian 12 with compilers" },
	{ value: "debian:12-base", text: "Minimal Debian with a shell" },
	{ value: "alpine:3.20", text: "Any OCI image also works" },
];

const sizes = [
	{ name: "Small", vcpus: 1, memory_mb: 512 },
	{ name: "Medium", vcpus: 2, memory_mb: 2048 },
	{ name: "Large", vcpus: 4, memory_mb: 8192 },
];

const timeouts = [
	[0, "Never"],
	[600, "After 10 min without use"],
	[3600, "After 1 h without use"],
	[28800, "After 8 h without use"],
] as const;

/** Create is the dialog that creates a sandbox, from a template if there is one. */
export function Create({ from, onClose }: { from?: Template; onClose: () => void }) {
	const { value: boxes } = useSandboxes();
	const [template, setTemplate] = useState(from?.name ?? "debian:12");
	const [size, setSize] = useState(0);
	const [envs, setEnvs] = useState<[string, string][]>([]);
	const sent = useRef({ text: "", key: "" }); // repeats of a request have the same key, and create one sandbox
	const known = useMemo(() => {
		const used = [...new Set(boxes?.map((b) => b.template))].filter((t) => !environments.some((e) => e.value === t)).slice(0, 2);
		return [...used.map((value) => ({ value, text: "Used before" })), ...environments];
	}, [boxes === undefined]);
	const alive = useRef(true);
	useEffect(() => () => void (alive.current = false), []);

	const submit = async (form: FormData) => {
		const name = String(form.get("name")).trim();
		const request: NewSandbox = { template: template.trim(), vcpus: sizes[size].vcpus, memory_mb: sizes[size].memory_mb, timeout_sec: Number(form.get("timeout")) };
		if (name) request.metadata = { name };
		const set = envs.filter(([k]) => k.trim());
		if (set.length) request.envs = Object.fromEntries(set.map(([k, v]) => [k.trim(), v]));
		const text = JSON.stringify(request);
		if (text !== sent.current.text) sent.current = { text, key: newRequestKey() };
		const b = await api.create(request, sent.current.key);
		void reload("sandboxes");
		if (!alive.current) return;
		onClose();
		go(`${hrefOf(b.id)}/terminal`);
	};

	return (
		<FormModal title={from ? `New sandbox from ${from.name}` : "New sandbox"} class="large" action="Create sandbox" waiting="Creating…" submit={submit} onClose={onClose}>
			<Field label="Name" hint="Optional. People see it instead of the ID.">
				{(id, hint) => <input id={id} class="input" name="name" maxLength={80} autocomplete="off" aria-describedby={hint} placeholder="fix-parser" />}
			</Field>
			{!from && (
				<fieldset class="stack-s">
					<legend class="label">Environment</legend>
					<div class="choices">
						{known.map((e) => (
							<label class="choice">
								<input type="radio" name="environment" value={e.value} checked={template === e.value} onChange={() => setTemplate(e.value)} />
								<span class="mono cut">{e.value}</span>
								<span class="cut faint">{e.text}</span>
							</label>
						))}
					</div>
					<label>
						<span class="sr">Environment: a name, a template or an image</span>
						<input
							class="input mono"
							value={template}
							onInput={(e) => setTemplate(e.currentTarget.value)}
							required
							maxLength={256}
							spellcheck={false}
							autocomplete="off"
							autocapitalize="off"
						/>
					</label>
				</fieldset>
			)}
			{from?.type !== "snapshot" && (
				<fieldset class="stack-s">
					<legend class="label">Size</legend>
					<div class="choices three">
						{sizes.map((s, i) => (
							<label class="choice">
								<input type="radio" name="size" checked={size === i} onChange={() => setSize(i)} />
								<span>{s.name}</span>
								<span class="faint num">
									{cores(s.vcpus)} · {megabytes(s.memory_mb)}
								</span>
							</label>
						))}
					</div>
				</fieldset>
			)}
			<Field label="Pause it">
				{(id) => (
					<select id={id} class="input" name="timeout">
						{timeouts.map(([value, text]) => (
							<option value={value}>{text}</option>
						))}
					</select>
				)}
			</Field>
			<fieldset class="stack-s">
				<legend class="label">Variables</legend>
				{envs.map(([k, v], i) => {
					const change = (to: [string, string]) => setEnvs(envs.map((e, j) => (i === j ? to : e)));
					return (
						<div class="row">
							<input class="input mono" aria-label="Name of the variable" placeholder="NAME" value={k} onInput={(e) => change([e.currentTarget.value, v])} />
							<input class="input mono" aria-label={`Value of ${k || "the variable"}`} placeholder="value" value={v} onInput={(e) => change([k, e.currentTarget.value])} />
							<Button kind="quiet" icon={X} label={`Remove ${k || "the variable"}`} onClick={() => setEnvs(envs.filter((_, j) => i !== j))} />
						</div>
					);
				})}
				<div>
					<Button small kind="quiet" icon={Plus} onClick={() => setEnvs([...envs, ["", ""]])}>
						Add a variable
					</Button>
				</div>
			</fieldset>
		</FormModal>
	);
}
