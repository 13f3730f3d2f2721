import { useEffect, useRef, useState } from "preact/hooks";
import { ChartLine } from "lucide-preact";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { textOf, type Point, type Sandbox } from "../api";
import { useData } from "../data";
import { bytes, cores, megabytes } from "../format";
import { Bone, Empty, Notice, Segments } from "../ui";

type Range = "10m" | "2h" | "24h";
const seconds = { "10m": 600, "2h": 7200, "24h": 86400 };
const every = { "10m": 5, "2h": 30, "24h": 120 };
const firstValue = { "10m": "some seconds", "2h": "half a minute", "24h": "5 minutes" };

export function Metrics({ box: b }: { box: Sandbox }) {
	const [range, setRange] = useState<Range>("10m");
	const { value: points, error } = useData(`sandbox/${b.id}/metrics/${range}`, (api) => api.metrics(b.id, range), b.status === "running" ? every[range] : 0);
	const last = points?.at(-1);
	return (
		<div class="page">
			<div class="row">
				<h2 class="grow">Use of resources</h2>
				<Segments
					label="Range"
					value={range}
					onChange={setRange}
					options={[
						{ value: "10m", text: "10 min" },
						{ value: "2h", text: "2 h" },
						{ value: "24h", text: "24 h" },
					]}
				/>
			</div>
			{error && <Notice>{textOf(error)}</Notice>}
			<div class="charts">
				<Chart title="Processors" of={cores(b.vcpus)} points={points} range={range} color="--accent" get={(p) => p.cpu_pct} max={100} unit={1000} format={(v) => `${v < 10 ? v.toFixed(1).replace(/\.0$/, "") : Math.round(v)} %`} now={last?.cpu_pct} />
				<Chart title="Memory" of={megabytes(b.memory_mb)} points={points} range={range} color="--blue" get={(p) => p.mem_bytes} max={b.memory_mb * 1048576} unit={1024} format={bytes} now={last?.mem_bytes} />
				<Chart title="Disk" of={megabytes(b.disk_mb)} points={points} range={range} color="--green" get={(p) => p.disk_bytes} unit={1024} format={bytes} now={last?.disk_bytes} />
			</div>
		</div>
	);
}

interface ChartProps {
	title: string;
	of: string;
	points?: Point[];
	range: Range;
	color: string;
	get: (p: Point) => number;
	format: (v: number) => string;
	max?: number;
	/** unit is the factor between two units, such as KB and MB. */
	unit: number;
	now?: number;
}

function Chart({ title, of, points, range, color, get, format, max, unit, now }: ChartProps) {
	const text = points?.length ? `${title} in the last ${range}: now ${format(now ?? 0)}, at most ${format(Math.max(...points.map(get)))} of ${of}` : `${title}: no data`;
	return (
		<section class="panel chart" aria-label={title}>
			<header>
				<h3>{title}</h3>
				<span class="faint small">of {of}</span>
				<span class="now num">{now === undefined ? points ? "–" : <Bone w={64} h={20} /> : format(now)}</span>
			</header>
			<div class="plot" role="img" aria-label={text}>
				{points && points.length === 0 && (
					<Empty icon={ChartLine} title="No data yet">
						The first value of this range comes {firstValue[range]} after the start.
					</Empty>
				)}
				{!!points?.length && <Plot points={points} {...{ range, color, get, format, max, unit }} />}
			</div>
		</section>
	);
}

/** round returns the next number that reads well with its half, in a unit such as 1024 bytes. */
function round(n: number, unit: number): number {
	const scale = unit ** Math.max(0, Math.floor(Math.log(n) / Math.log(unit)));
	const digit = 10 ** Math.floor(Math.log10(n / scale));
	return Math.min([1, 2, 4, 6, 8, 10].find((m) => m * digit * scale >= n)! * digit, unit) * scale;
}

function Plot({ points, range, color, get, format, max, unit }: Pick<ChartProps, "range" | "color" | "get" | "format" | "max" | "unit"> & { points: Point[] }) {
	const host = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot>();
	const data: uPlot.AlignedData = [points.map((p) => p.timestamp_unix), points.map(get)];
	const latest = useRef({ range, format });
	latest.current = { range, format };
	const build = () => {
		const el = host.current!;
		plot.current?.destroy();
		// A canvas needs resolved colours; light-dark() is resolved only in used values.
		const probe = document.createElement("span");
		probe.style.transition = "none"; // getComputedStyle would return the colour before
		el.append(probe);
		const value = (name: string) => {
			probe.style.color = `var(${name})`;
			return getComputedStyle(probe).color;
		};
		const stroke = value(color);
		const text = value("--text-3");
		const line = value("--line");
		probe.remove();
		const font = `12px Geist, system-ui, sans-serif`;
		plot.current = new uPlot(
			{
				width: el.clientWidth,
				height: el.clientHeight,
				legend: { show: false },
				cursor: { y: false, points: { size: 7 } },
				padding: [6, 4, 0, 0],
				scales: {
					x: {
						range: (_, __, to) => {
							const end = Math.max(to ?? 0, Date.now() / 1000 - 30);
							return [end - seconds[latest.current.range], end];
						},
					},
					y: { range: (_, __, to) => [0, Math.min(max ?? Infinity, round(Math.max(to * 1.2, max ? max / 16 : 1024), unit))] },
				},
				axes: [
					{
						stroke: text,
						font,
						grid: { show: false },
						ticks: { show: false },
						size: 28,
						space: 80,
						// The first label would touch the one of the other axis.
						values: (u, splits) => splits.map((at) => (u.valToPos(at, "x") < 24 ? "" : new Date(at * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" }))),
					},
					{
						stroke: text,
						font,
						grid: { stroke: line, width: 1 },
						ticks: { show: false },
						size: 64,
						splits: (u) => {
							const top = u.scales.y.max ?? 1;
							return [0, top / 2, top];
						},
						values: (_, splits) => splits.map((v) => latest.current.format(v)),
					},
				],
				series: [{}, { stroke, width: 1.75, fill: stroke.replace("rgb(", "rgba(").replace(")", ", 0.1)"), points: { show: points.length < 3 } }],
				hooks: {
					setCursor: [
						(u) => {
							const tip = el.querySelector<HTMLElement>(".tip")!;
							const i = u.cursor.idx;
							tip.hidden = i == null || (u.cursor.left ?? -1) < 0;
							if (i == null) return;
							tip.textContent = `${latest.current.format(u.data[1][i] ?? 0)} · ${new Date(u.data[0][i] * 1000).toLocaleTimeString()}`;
							tip.style.left = `${Math.min((u.cursor.left ?? 0) + 64, el.clientWidth - 150)}px`;
						},
					],
				},
			},
			data,
			el,
		);
	};
	useEffect(() => {
		build();
		const size = new ResizeObserver(() => plot.current?.setSize({ width: host.current!.clientWidth, height: host.current!.clientHeight }));
		size.observe(host.current!);
		const dark = matchMedia("(prefers-color-scheme: dark)");
		addEventListener("themechange", build);
		dark.addEventListener("change", build);
		return () => {
			size.disconnect();
			removeEventListener("themechange", build);
			dark.removeEventListener("change", build);
			plot.current?.destroy();
			plot.current = undefined;
		};
	}, [range]);
	useEffect(() => plot.current?.setData(data), [points]);
	return (
		<div ref={host} class="plot">
			<div class="tip" hidden />
		</div>
	);
}
