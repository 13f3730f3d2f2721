// The audit log of the team, in plain phrases.
import { useState } from "preact/hooks";
import { api, textOf, type AuditPage } from "../api";
import { hrefOf, me, nameOf, useData, useSandboxes } from "../data";
import { ago, capital, exact } from "../format";
import { Button, Notice, PageHead, pending, Table, useAction } from "../ui";

type Entry = AuditPage["items"][number];

/**
 * phrases say what an action does. Each begins with a verb. {} is the subject, and {port} a port of
 * a sandbox.
 */
const phrases: Record<string, Record<string, string>> = {
	sandbox: {
		create: "create {}",
		delete: "delete {}",
		pause: "pause {}",
		resume: "resume {}",
		fork: "fork {}",
		exec: "run a program in {}",
		exec_workspace: "run a program in {}",
		start_command: "start a program in {}",
		kill_command: "stop a program in {}",
		signal_process: "send a signal to a program in {}",
		open_terminal: "open a terminal in {}",
		open_shell: "open a terminal in {}",
		write_shell: "type in a terminal of {}",
		signal_shell: "send a signal to a terminal of {}",
		resize_shell: "change the size of a terminal of {}",
		close_shell: "close a terminal of {}",
		write_file: "write a file in {}",
		write_workspace_file: "write a file in {}",
		make_folder: "create a folder in {}",
		remove_file: "delete a file in {}",
		rename_file: "rename a file in {}",
		apply_workspace_patch: "apply a patch in {}",
		create_snapshot: "create a snapshot of {}",
		delete_snapshot: "delete a snapshot of {}",
		reset_workspace: "reset {}",
		start_service: "start a service in {}",
		stop_service: "stop a service in {}",
	},
	port: { share: "change the access to port {port} of {}", delete: "end the access to port {port} of {}", open: "open port {port} of {}" },
	template: { create: "create the template {}", delete: "delete the template {}" },
	api_key: { create: "create the key {}", delete: "delete the key {}" },
	session: { login: "log in" },
	member: {
		add: "add {} to the team",
		remove: "remove {} from the team",
		update: "change the role of {}",
		leave: "leave the team",
		create_login_link: "create a login link for {}",
	},
	team: { create: "create the team", update: "rename the team", delete: "delete the team", set_quota: "change the quota of the team" },
	user: { update: "change their name", change_password: "change their password", delete: "delete their account" },
};

const pasts: Record<string, string> = { run: "ran", send: "sent", write: "wrote", reset: "reset", log: "logged", leave: "left", stop: "stopped", apply: "applied" };
const past = (verb: string) => pasts[verb] ?? (verb.endsWith("e") ? `${verb}d` : `${verb}ed`);

/** phraseOf returns the phrase of an entry, with {} for the subject. */
function phraseOf(e: Entry): string {
	const port = e.resource_type === "port" ? (e.resource_id ?? "").split(":")[1] : "";
	const text = (phrases[e.resource_type]?.[e.action] ?? "").replace("{port}", () => port ?? "");
	// An action that this page does not know is better than no entry.
	if (!text) return `${capital(e.action).replaceAll("_", " ")}: {}`;
	if (e.status !== "success") return `Tried to ${text}`;
	const [verb, ...rest] = text.split(" ");
	return capital([past(verb), ...rest].join(" "));
}

export function Audit() {
	const { value: first, error } = useData("audit", () => api.audit());
	const names = useNames();
	// asked are the pages that the user has asked for, and the first page of that time: new entries
	// push entries out of the first page. If they push out all of them, some entries are missing between
	// the pages, so only the first page is shown.
	const [asked, setPages] = useState<AuditPage[]>([]);
	const pages = asked.length && first?.items.some((e) => e.id === asked[0].items[0].id) ? asked : [];
	const last = pages.at(-1) ?? first;
	const [busy, showEarlier] = useAction(async () => last && setPages([...(pages.length ? pages : [last]), await api.audit(last)]));
	const all = first && [...new Map([first, ...pages].flatMap((p) => p.items).map((e) => [e.id, e])).values()];
	return (
		<div class="page">
			<PageHead title="Audit log" sub="Changes in this team, the latest first. The log has no commands and no content of files." />
			{error && <Notice>{textOf(error)}</Notice>}
			<section class="panel" aria-label="Entries" aria-busy={!all}>
				<Table columns={["Change", "By", "From", "Result", "Time"]} loading={!all && !error}>
					{all?.map((e) => (
						<tr key={e.id}>
							<td>
								<Phrase entry={e} names={names} />
							</td>
							<td class="dim">
								{e.actor_name || e.actor_id || e.actor_type}
								{e.actor_type === "api_key" && <span class="faint"> (API key)</span>}
							</td>
							<td class="mono dim">{e.metadata?.address}</td>
							<td>{e.status === "success" ? <span class="dim">Done</span> : <span class="failed">{failure(e)}</span>}</td>
							<td class="num">
								<time class="dim" dateTime={e.created_at} title={exact(e.created_at)}>
									{ago(e.created_at)}
									<span class="exact faint small">{exact(e.created_at)}</span>
								</time>
							</td>
						</tr>
					))}
				</Table>
			</section>
			{last?.next_before && (
				<div>
					<Button busy={busy} onClick={showEarlier}>
						Show earlier entries
					</Button>
				</div>
			)}
		</div>
	);
}

const failure = (e: Entry) => `Failed: ${(e.metadata?.error ?? "unknown error").replaceAll("_", " ")}`;

interface Name {
	text: string;
	href?: string;
}

/** useNames returns the names of the sandboxes, keys and members that still exist, by their IDs. */
function useNames(): Map<string, Name> {
	const team = me.value?.team_id ?? "";
	const boxes = useSandboxes();
	const keys = useData("keys", api.keys);
	const members = useData(`members/${team}`, () => (team ? api.members(team) : pending));
	return new Map<string, Name>([
		...(boxes.value ?? []).map((b): [string, Name] => [b.id, { text: nameOf(b), href: hrefOf(b.id) }]),
		...(keys.value ?? []).map((k): [string, Name] => [k.id, { text: k.name }]),
		...(members.value ?? []).map((m): [string, Name] => [m.user_id, { text: m.name || m.email }]),
	]);
}

function Phrase({ entry: e, names }: { entry: Entry; names: Map<string, Name> }) {
	const [before, after] = phraseOf(e).split("{}");
	const id = (e.resource_id ?? "").split(":")[0];
	const name = names.get(id) ?? (e.metadata?.name ? { text: e.metadata.name } : undefined);
	let subject = <span class={e.resource_type === "template" ? "strong" : "mono small"}>{id || "something"}</span>;
	if (name?.href)
		subject = (
			<a class="strong subject" href={name.href} title={id}>
				{name.text}
			</a>
		);
	else if (name)
		subject = (
			<span class="strong" title={id}>
				{name.text}
			</span>
		);
	return (
		<>
			{before}
			{after !== undefined && subject}
			{after}
		</>
	);
}
