import { Activity, FileDiff, FolderOpen, Globe, LayoutDashboard, Network, SquareTerminal } from "lucide-preact";

/** tabs are the parts of the page of a sandbox, in their order. */
export const tabs = [
	{ name: "", text: "Overview", icon: LayoutDashboard },
	{ name: "terminal", text: "Terminal", icon: SquareTerminal },
	{ name: "files", text: "Files", icon: FolderOpen },
	{ name: "changes", text: "Changes", icon: FileDiff },
	{ name: "services", text: "Services", icon: Globe },
	{ name: "network", text: "Network", icon: Network },
	{ name: "metrics", text: "Metrics", icon: Activity },
];
