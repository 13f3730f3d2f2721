import { ChevronRight, RefreshCw } from "lucide-preact";
import type { Command } from "../api";
import { useData } from "../data";
import { ago, bytes, commandOf, exact, took } from "../format";
import { Button, Panel } from "../ui";

/** shown is how many of the latest commands are rendered. */
const shown = 100;

/** Commands shows the commands that ran in a sandbox, with their output and exit code. */
export function Commands({ id }: { id: string }) {
	// The history can have 16 MB of output, so it is not loaded at intervals.
	const { value: all, error, reload } = useData(`sandbox/${id}/history`, (api) => api.history(id));
	return (
		<Panel
			title="Commands"
			actions={<Button kind="quiet" small icon={RefreshCw} label="Refresh the commands" onClick={() => void reload()}>Refresh</Button>}
			loading={!all}
			error={error}
		>
			{all?.length === 0 && <p class="inner dim">None. Commands of the API and of agents appear here, with their output.</p>}
			{all
				?.slice(-shown)
				.reverse()
				.map((c) => (
					<details key={`${c.started_at} ${c.sequence}`} class="fold">
						<summary>
							<ChevronRight size={14} aria-hidden />
							<span class="mono cut grow" title={c.argv.join(" ").slice(0, 2000)}>
								{commandOf(c.argv).slice(0, 300)}
							</span>
							<span class={`whole small ${c.exit_code === 0 || isLive(c) ? "dim" : "failed"}`}>{endOf(c)}</span>
							<span class="faint small whole when" title={exact(c.started_at)}>
								{ago(c.started_at)}
							</span>
						</summary>
						<pre class="logs" role="group" tabIndex={0} aria-label="Output">
							{[partOf(c.stdout, c.stdout_encoding, c.stdout_bytes), partOf(c.stderr, c.stderr_encoding, c.stderr_bytes)].filter(Boolean).join("\n") || "It has printed nothing."}
						</pre>
					</details>
				))}
			{!!all && all.length > shown && <p class="inner dim">The page shows the latest {shown} commands of {all.length}.</p>}
		</Panel>
	);
}

const isLive = (c: Command) => c.state === "running" || c.state === "paused";

/** endOf says how a command ended. */
function endOf(c: Command): string {
	if (isLive(c)) return c.state === "running" ? "Running" : "Paused";
	if (c.not_run) return "Did not run";
	if (c.timed_out) return "Timed out";
	if (c.out_of_memory) return "Out of memory";
	if (c.signal) return `Signal ${c.signal}`;
	return c.exit_code === null ? "Interrupted" : `Exit code ${c.exit_code} after ${took(c.duration_ms)}`;
}

const partOf = (text: string, encoding: string, size: number) => (encoding === "base64" ? `${bytes(size)} of binary output` : text.replace(/\n$/, ""));
