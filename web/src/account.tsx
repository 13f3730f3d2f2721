// The account of the user: password and teams.
import { useState } from "preact/hooks";
import { ArrowLeftRight, KeyRound, Settings } from "lucide-preact";
import { api } from "./api";
import { endSession, me, useData } from "./data";
import { go } from "./router";
import { showError } from "./messages";
import { Field, FormModal, Menu } from "./ui";

/** AccountMenu lets users change their password, and act for another of their teams. */
export function AccountMenu() {
	const [changing, setChanging] = useState(false);
	const teams = useData("teams", api.teams);
	const change = (id: string) =>
		api
			.switchTeam(id)
			.then(() => location.assign("/")) // no value of the other team stays
			.catch(showError);
	return (
		<>
			<Menu label="Account" icon={Settings} small>
				<button type="button" onClick={() => setChanging(true)}>
					<KeyRound size={15} aria-hidden /> {me.value?.has_password ? "Change password…" : "Set a password…"}
				</button>
				{teams.value
					?.filter((t) => t.id !== me.value?.team_id)
					.map((t) => (
						<button type="button" key={t.id} onClick={() => change(t.id)}>
							<ArrowLeftRight size={15} aria-hidden /> <span class="cut">Switch to {t.name}</span>
						</button>
					))}
			</Menu>
			{changing && <ChangePassword onClose={() => setChanging(false)} />}
		</>
	);
}

function ChangePassword({ onClose }: { onClose: () => void }) {
	const known = !!me.value?.has_password;
	const change = async (form: FormData) => {
		const text = (name: string) => String(form.get(name));
		await api.changePassword(known ? text("current") : undefined, text("new"), text("again"));
		endSession(); // the server has ended it
		go("/", true);
	};
	const password = (id: string, name: string, kind: "current" | "new", hint?: string) => (
		<input id={id} class="input" name={name} type="password" autocomplete={`${kind}-password`} required minLength={kind === "new" ? 8 : 1} maxLength={1024} aria-describedby={hint} />
	);
	return (
		<FormModal title={known ? "Change password" : "Set a password"} action={known ? "Change password" : "Set password"} submit={change} onClose={onClose}>
			<input type="email" autocomplete="username" value={me.value?.email} readOnly hidden />
			{known && <Field label="Current password">{(id) => password(id, "current", "current")}</Field>}
			<Field label="New password" hint="At least 8 characters. You log in again with it, in every browser.">
				{(id, hint) => password(id, "new", "new", hint)}
			</Field>
			<Field label="New password again">{(id) => password(id, "again", "new")}</Field>
		</FormModal>
	);
}
