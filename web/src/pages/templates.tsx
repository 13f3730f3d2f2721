// The templates of the team: sandboxes that new sandboxes begin with.
import { useState } from "preact/hooks";
import { Layers, Plus, Trash } from "lucide-preact";
import { api, textOf, type Template } from "../api";
import { canWrite, useData } from "../data";
import { ago, bytes, cores, exact, megabytes } from "../format";
import { ask, Button, Empty, Notice, PageHead, Table } from "../ui";
import { Create } from "./create";

export function Templates() {
	const { value: all, error, reload: again } = useData("templates", api.templates);
	const [from, setFrom] = useState<Template>();
	const own = all?.filter((t) => !t.platform);
	const remove = (t: Template) =>
		ask({
			title: `Delete the template ${t.name}?`,
			text: "Sandboxes that it has made must be deleted first. This can't be undone.",
			action: "Delete template",
			run: async () => {
				await api.removeTemplate(t.name);
				await again();
			},
		});
	return (
		<div class="page">
			<PageHead title="Templates" sub="New sandboxes begin with the files and programs of a template." />
			{error && <Notice>{textOf(error)}</Notice>}
			<section class="panel" aria-label="List of templates" aria-busy={!all}>
				{own?.length === 0 ? (
					<Empty
						icon={Layers}
						title="No templates yet"
						actions={
							<a class="button" href="/">
								Go to the sandboxes
							</a>
						}
					>
						Prepare a sandbox, then turn it into a template in its menu.
					</Empty>
				) : (
					<Table columns={["Name", "Contains", "Size", "On disk", "Created"]} actions loading={!all && !error}>
						{own?.map((t) => (
							<tr key={t.name}>
								<td class="strong">{t.name}</td>
								<td class="dim">{t.type === "snapshot" ? "Files and running programs" : "Files"}</td>
								<td class="dim num">{t.type === "snapshot" ? `${cores(t.vcpus)} · ${megabytes(t.memory_mb)}` : "Any"}</td>
								<td class="dim num">{t.size_bytes ? bytes(t.size_bytes) : "Unknown"}</td>
								<td class="dim" title={exact(t.created_at)}>
									{t.created_at && ago(t.created_at)}
								</td>
								<td class="end">
									{canWrite.value && <Button small kind="quiet" icon={Plus} label={`New sandbox from ${t.name}`} onClick={() => setFrom(t)}>New sandbox</Button>}
									{canWrite.value && <Button small kind="quiet" icon={Trash} label={`Delete ${t.name}`} onClick={() => remove(t)}>Delete</Button>}
								</td>
							</tr>
						))}
					</Table>
				)}
			</section>
			{from && <Create from={from} onClose={() => setFrom(undefined)} />}
		</div>
	);
}
