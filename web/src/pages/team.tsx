import { useState } from "preact/hooks";
import { Server, Trash, UserPlus } from "lucide-preact";
import { api, textOf, type Limits, type Member, type Role } from "../api";
import { canManage, me, useData } from "../data";
import { ago, capital, cores, exact, megabytes } from "../format";
import { showError } from "../messages";
import { ask, Bone, Button, Empty, Field, FormModal, Modal, Notice, PageHead, Panel, pending, Snippet, Status, Table } from "../ui";

const roles = ["owner", "admin", "member", "viewer"];
const title = (text: string) => capital(text).replaceAll("_", " ");

export function Members() {
	const team = me.value?.team_id ?? "";
	const { value: all, error, reload } = useData(`members/${team}`, () => (team ? api.members(team) : pending));
	const [adding, setAdding] = useState(false);
	const remove = (m: Member) =>
		ask({
			title: `Remove ${m.name || m.email} from the team?`,
			text: "The sessions and API keys of this person end immediately. The sandboxes stay.",
			action: "Remove member",
			run: async () => {
				await api.removeMember(team, m.user_id);
				await reload();
			},
		});
	return (
		<div class="page">
			<PageHead title="Members" sub="People who use the sandboxes of this team.">
				{canManage.value && (
					<Button kind="primary" icon={UserPlus} onClick={() => setAdding(true)}>
						Add a member
					</Button>
				)}
			</PageHead>
			{error && <Notice>{textOf(error)}</Notice>}
			<section class="panel" aria-label="List of members" aria-busy={!all}>
				<Table columns={["Name", "Email", "Role", "Joined"]} actions loading={!all && !error}>
					{all?.map((m) => (
						<tr key={m.user_id}>
							<td class="strong">{m.name || m.email}</td>
							<td class="dim">{m.email}</td>
							<td>
								{canManage.value && m.user_id !== me.value?.user_id ? (
									<select
										class="input role"
										aria-label={`Role of ${m.email}`}
										value={m.role}
										onChange={(e) =>
											api
												.setRole(team, m.user_id, e.currentTarget.value as Role)
												.catch(showError)
												.then(reload)
										}
									>
										{roles.map((r) => (
											<option value={r}>{title(r)}</option>
										))}
									</select>
								) : (
									title(m.role)
								)}
							</td>
							<td class="dim" title={exact(m.joined_at)}>
								{ago(m.joined_at)}
							</td>
							<td class="end">
								{canManage.value && m.user_id !== me.value?.user_id && <Button kind="quiet" small icon={Trash} label={`Remove ${m.email}`} onClick={() => remove(m)}>Remove</Button>}
							</td>
						</tr>
					))}
				</Table>
			</section>
			{adding && <AddMember team={team} onClose={() => setAdding(false)} onDone={reload} />}
		</div>
	);
}

function AddMember({ team, onClose, onDone }: { team: string; onClose: () => void; onDone: () => void }) {
	const [made, setMade] = useState<Member>();
	if (made)
		return (
			<Modal title={`${made.email} is a member`} onClose={onClose}>
				{made.login_link ? (
					<>
						<p class="lead">Send this link to the new member. It works once.</p>
						<Snippet text={made.login_link} label="Login link" />
					</>
				) : (
					<p class="lead">This person has an account, and sees the team after the next login.</p>
				)}
				<footer>
					<Button kind="primary" onClick={onClose}>
						Done
					</Button>
				</footer>
			</Modal>
		);
	const add = async (form: FormData) => {
		setMade(await api.addMember(team, String(form.get("email")), form.get("role") as Role));
		onDone();
	};
	return (
		<FormModal title="Add a member" action="Add member" submit={add} onClose={onClose}>
			<Field label="Email">{(id) => <input id={id} class="input" name="email" type="email" required maxLength={320} autocomplete="off" />}</Field>
			<Field label="Role" hint="Viewers only read. Members change sandboxes. Admins also manage members.">
				{(id, hint) => (
					<select id={id} class="input" name="role" aria-describedby={hint}>
						{["member", "viewer", "admin", "owner"].map((r) => (
							<option value={r}>{title(r)}</option>
						))}
					</select>
				)}
			</Field>
		</FormModal>
	);
}

export function Usage() {
	const team = me.value?.team_id ?? "";
	const quota = useData(`quota/${team}`, () => (team ? api.quota(team) : pending));
	const hosts = useData("hosts", api.hosts, 30);
	const rows: [string, keyof Limits, (n: number) => string][] = [
		["Sandboxes", "sandboxes", String],
		["Processors", "vcpus", cores],
		["Memory", "memory_mb", megabytes],
		["Total size of disks", "disk_mb", megabytes],
		["Sent this month", "egress_mb", megabytes],
	];
	return (
		<div class="page">
			<PageHead title="Usage and hosts" sub="What the sandboxes of the team use now, and what they sent to other computers this month (UTC)." />
			{quota.error && <Notice>{textOf(quota.error)}</Notice>}
			<section class="meters" aria-label="Quota">
				{rows.map(([name, key, format]) => {
					const used = quota.value?.used[key] ?? 0;
					const limit = quota.value?.limits[key] ?? 0;
					return (
						<div class="panel meter">
							<div class="faint small">{name}</div>
							<div class="value num">{quota.value ? format(used) : <Bone w={80} h={24} />}</div>
							<div class="faint small num">{quota.value ? (limit ? `of ${format(limit)}` : "No limit") : <Bone w={60} />}</div>
							{!!limit && <progress class="bar" max={limit} value={used} aria-label={`${name}: ${format(used)} of ${format(limit)}`} />}
						</div>
					);
				})}
			</section>
			<Panel title="Hosts" error={hosts.error}>
				{hosts.value?.length === 0 ? (
					<Empty icon={Server} title="No hosts">
						Start a host agent, and name it in the configuration of the server.
					</Empty>
				) : (
					<Table columns={["Name", "Status", "Last answer"]} loading={!hosts.value && !hosts.error}>
						{hosts.value?.map((h) => (
							<tr key={h.id}>
								<td class="strong">{h.name}</td>
								<td>
									<Status of={h.status === "online" ? "running" : "error"} text={h.status} />
								</td>
								<td class="dim" title={exact(h.last_heartbeat_at)}>
									{ago(h.last_heartbeat_at)}
								</td>
							</tr>
						))}
					</Table>
				)}
			</Panel>
		</div>
	);
}
