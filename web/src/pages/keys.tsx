import { useState } from "preact/hooks";
import { KeyRound, Plus, Trash } from "lucide-preact";
import { api, textOf, type Key, type NewKey } from "../api";
import { canWrite, useData } from "../data";
import { ago, capital, exact } from "../format";
import { ask, Button, Empty, Field, FormModal, Modal, Notice, PageHead, Snippet, Table } from "../ui";

const lives = [
	[30, "In 30 days"],
	[90, "In 90 days"],
	[365, "In a year"],
	[0, "Never"],
] as const;

export function Keys() {
	const { value: all, error, reload } = useData("keys", api.keys);
	const [creating, setCreating] = useState(false);
	const create = canWrite.value && (
		<Button kind="primary" icon={Plus} onClick={() => setCreating(true)}>
			New API key
		</Button>
	);
	const remove = (k: Key) =>
		ask({
			title: `Delete the key ${k.name}?`,
			text: `Programs that use ${k.key_prefix}… are refused at once. This can't be undone.`,
			action: "Delete key",
			run: async () => {
				await api.removeKey(k.id);
				await reload();
			},
		});
	return (
		<div class="page">
			<PageHead title="API keys" sub="Programs send a key in the header X-API-Key.">
				{create}
			</PageHead>
			{error && <Notice>{textOf(error)}</Notice>}
			<section class="panel" aria-label="List of API keys" aria-busy={!all}>
				{all?.length === 0 ? (
					<Empty icon={KeyRound} title="No API keys" actions={create}>
						Create a key to use the API, the SDK or MCP.
					</Empty>
				) : (
					<Table columns={["Name", "Key", "Permits", "Last used", "Expires"]} actions loading={!all && !error}>
						{all?.map((k) => (
							<tr key={k.id}>
								<td class="strong">{k.name}</td>
								<td class="mono dim">{k.key_prefix}…</td>
								<td class="dim">{k.scopes.length ? capital(k.scopes.join(", ")) : "Everything"}</td>
								<td class="dim" title={exact(k.last_used)}>
									{ago(k.last_used)}
								</td>
								<td class="dim" title={exact(k.expires_at)}>
									{k.expires_at ? new Date(k.expires_at).toLocaleDateString() : "Never"}
								</td>
								<td class="end">{canWrite.value && <Button kind="quiet" small icon={Trash} label={`Delete ${k.name}`} onClick={() => remove(k)}>Delete</Button>}</td>
							</tr>
						))}
					</Table>
				)}
			</section>
			{creating && <NewKey onClose={() => setCreating(false)} onDone={reload} />}
		</div>
	);
}

function NewKey({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
	const [made, setMade] = useState<Key>();
	if (made)
		return (
			<Modal title={`The key ${made.name}`} onClose={onClose}>
				<p class="lead">Copy it now. The server has only its digest, and can't show it again.</p>
				<Snippet text={made.key ?? ""} label="API key" />
				<footer>
					<Button kind="primary" onClick={onClose}>
						Done
					</Button>
				</footer>
			</Modal>
		);
	const create = async (form: FormData) => {
		const days = Number(form.get("life"));
		const scope = String(form.get("scope"));
		setMade(
			await api.newKey({
				name: String(form.get("name")).trim(),
				scopes: scope ? (scope.split(" ") as NewKey["scopes"]) : [],
				expires_at: days ? new Date(Date.now() + days * 86400000).toISOString() : undefined,
			}),
		);
		onDone();
	};
	return (
		<FormModal title="New API key" action="Create key" submit={create} onClose={onClose}>
			<Field label="Name" hint="Say which program uses it.">
				{(id, hint) => <input id={id} class="input" name="name" required maxLength={100} autocomplete="off" aria-describedby={hint} placeholder="review agent" />}
			</Field>
			<Field label="It permits">
				{(id) => (
					<select id={id} class="input" name="scope">
						<option value="">Everything that a member can do</option>
						<option value="read write">To read and change sandboxes</option>
						<option value="read">Only to read</option>
					</select>
				)}
			</Field>
			<Field label="It expires">
				{(id) => (
					<select id={id} class="input" name="life">
						{lives.map(([days, text]) => (
							<option value={days}>{text}</option>
						))}
					</select>
				)}
			</Field>
		</FormModal>
	);
}
