import { render } from "preact";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/shell.css";
import "./styles/pages.css";
import "./focus";
import { App } from "./app";
import "./events";

render(<App />, document.getElementById("app")!);
