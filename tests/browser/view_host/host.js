// The host page: it shows one view in the sandbox, speaks the protocol of MCP Apps with it, and lists
// the messages. The server calls tools and reads resources, as the user that the command names.
//
// | state      | meaning                                   | what moves it                              |
// |------------|-------------------------------------------|--------------------------------------------|
// | loading    | the frame loads the view                  | ui/initialize: connecting                  |
// | connecting | ui/initialize is answered                 | ui/notifications/initialized: open         |
// | open       | the view gets its input and its result    | Close, request-teardown: closing           |
// | closing    | ui/resource-teardown is sent              | its response, or TEARDOWN_TIMEOUT: closed  |
// | closed     | the frame is removed, also when it loads  | Reload, or another origin: loading         |
// |            | something else than the view              |                                            |

import { VARIABLES } from "./themes.js";

const PROTOCOL_VERSION = "2026-01-26";
const TEARDOWN_TIMEOUT = 3000;
const MAX_HEIGHT = 4000;
const MODES = ["inline", "fullscreen"];

const METHOD_NOT_FOUND = -32601;
const INTERNAL_ERROR = -32603;

const one = (selector) => document.querySelector(selector);
const options = one("#options").elements;

let facts = {};
let frame = null;
let mode = "inline";
let callArguments = null;
let callResponse = null;
let lastId = 0;
let lastLoad = 0;
let teardownId = null;
let afterTeardown = null;

// Requests and notifications of the view.

const REQUESTS = {
  ping: () => ({}),
  "ui/initialize": initialize,
  "ui/message": (params) => noteRequest("Message", textOf(params.content)),
  "ui/open-link": openLink,
  "ui/update-model-context": (params) => {
    show("#model-context", params);
    return {};
  },
  "ui/request-display-mode": (params) => {
    setMode(MODES.includes(params.mode) ? params.mode : mode);
    return { mode };
  },
};

const NOTIFICATIONS = {
  "ui/notifications/initialized": () => {
    setState("open");
    sendInput();
  },
  "ui/notifications/size-changed": ({ height }) => {
    if (frame && height > 0) frame.style.height = `${Math.min(Math.ceil(height), MAX_HEIGHT)}px`;
  },
  "ui/notifications/request-teardown": () => close(),
};

window.addEventListener("message", (event) => {
  if (!frame || event.source !== frame.contentWindow || event.origin !== viewOrigin()) return;
  const message = event.data;
  if (message?.jsonrpc !== "2.0") return;
  log("view", message);
  if (message.method === undefined) return answered(message);
  if (message.id === undefined) return NOTIFICATIONS[message.method]?.(message.params ?? {});
  respond(message);
});

async function respond({ id, method, params = {} }) {
  try {
    if (REQUESTS[method]) return send({ id, result: REQUESTS[method](params) });
    if (method.startsWith("ui/")) {
      const text = `The preview does not offer ${method}`;
      return send({ id, error: { code: METHOD_NOT_FOUND, message: text } });
    }
    const { result, error } = await post("forward", { method, params });
    send(error ? { id, error } : { id, result });
  } catch (problem) {
    send({ id, error: { code: INTERNAL_ERROR, message: String(problem) } });
  }
}

function initialize() {
  setState("connecting");
  return {
    protocolVersion: PROTOCOL_VERSION,
    hostInfo: { name: "view_host", version: "1" },
    hostCapabilities: {
      openLinks: {},
      serverTools: {},
      serverResources: {},
      logging: {},
      updateModelContext: { text: {}, structuredContent: {} },
      message: { text: {} },
      sandbox: { csp: facts.meta.csp ?? {}, permissions: facts.meta.permissions ?? {} },
    },
    hostContext: {
      toolInfo: { id: "call", tool: facts.tool },
      displayMode: mode,
      availableDisplayModes: MODES,
      locale: document.documentElement.lang,
      timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      userAgent: "view_host",
      safeAreaInsets: { top: 0, right: 0, bottom: 0, left: 0 },
      ...look(),
    },
  };
}

async function sendInput() {
  const shown = frame;
  const response = callResponse;
  notify("ui/notifications/tool-input", { arguments: callArguments });
  const { result, error } = await response;
  if (frame !== shown) return;
  if (error) return notify("ui/notifications/tool-cancelled", { reason: error.message });
  notify("ui/notifications/tool-result", result);
}

function openLink({ url }) {
  noteRequest("Link", url);
  return /^https?:/i.test(url) ? {} : { isError: true };
}

// Messages to the view.

function send(message) {
  if (!frame) return;
  const sent = { jsonrpc: "2.0", ...message };
  log("host", sent);
  // A view without an origin can only be addressed as "*"; the policy of this page keeps it in its frame.
  frame.contentWindow.postMessage(sent, viewOrigin() === "null" ? "*" : viewOrigin());
}

function notify(method, params) {
  send({ method, params });
}

function viewOrigin() {
  return options.origin.value === "own" ? facts.sandboxOrigin : "null";
}

// The frame.

async function load() {
  frame?.remove();
  frame = null;
  setState("loading");
  one("#messages").replaceChildren();
  one("#requests").replaceChildren();
  one("#count").value = "";
  show("#model-context", "Nothing");
  const load = (lastLoad += 1);
  const read = await (await fetch("facts")).json();
  if (load !== lastLoad) return;
  facts = read;
  callArguments ??= facts.arguments;
  showFacts();
  if (facts.error) return;
  callResponse = post("call", { arguments: callArguments });
  showText(callResponse);
  frame = document.createElement("iframe");
  frame.title = facts.tool.title ?? facts.tool.name;
  frame.setAttribute("sandbox", facts.sandbox[options.origin.value]);
  frame.allow = facts.allow;
  frame.src = `${facts.sandboxUrl}?origin=${options.origin.value}`;
  let loads = 0;
  const loading = frame;
  frame.addEventListener("load", () => (loads += 1) > 1 && frame === loading && remove());
  one("#container").replaceChildren(frame);
}

/** Ask the view to end, remove it, and continue with `then`. */
function close(then = null) {
  afterTeardown = then;
  if (document.body.dataset.state === "closing") return;
  if (document.body.dataset.state !== "open") return remove();
  setState("closing");
  teardownId = `host-${(lastId += 1)}`;
  send({ id: teardownId, method: "ui/resource-teardown", params: {} });
  const sent = teardownId;
  setTimeout(() => answered({ id: sent }), TEARDOWN_TIMEOUT);
}

function answered({ id }) {
  if (id === teardownId && document.body.dataset.state === "closing") remove();
}

function remove() {
  frame?.remove();
  frame = null;
  teardownId = null;
  setState("closed");
  const next = afterTeardown;
  afterTeardown = null;
  next?.();
}

// What the view is told of its surroundings.

function look() {
  const theme = options.theme.value;
  const isPhone = options.width.value === "phone";
  return {
    theme,
    styles: { variables: VARIABLES[theme] },
    platform: isPhone ? "mobile" : "web",
    deviceCapabilities: { touch: isPhone, hover: !isPhone },
    containerDimensions: { width: one("#container").clientWidth, maxHeight: MAX_HEIGHT },
  };
}

function setMode(wanted) {
  if (wanted === mode) return;
  mode = wanted;
  document.body.dataset.mode = mode;
  notify("ui/notifications/host-context-changed", { displayMode: mode, ...look() });
}

function applyOptions() {
  document.documentElement.dataset.theme = options.theme.value;
  document.body.dataset.width = options.width.value;
}

one("#options").addEventListener("change", (event) => {
  applyOptions();
  if (event.target.name === "origin") return close(load);
  if (document.body.dataset.state === "open") notify("ui/notifications/host-context-changed", look());
});

one("#close").addEventListener("click", () => close());
one("#reload").addEventListener("click", () => close(load));

one("#call").addEventListener("submit", (event) => {
  event.preventDefault();
  const error = one("#arguments-error");
  error.hidden = true;
  try {
    callArguments = JSON.parse(one("#arguments").value);
    close(load);
  } catch (problem) {
    error.textContent = `The arguments are not JSON: ${problem.message}`;
    error.hidden = false;
  }
});

// What the page shows besides the view.

function setState(state) {
  document.body.dataset.state = state;
}

function showFacts() {
  const caller = facts.user ? `as ${facts.user}` : "as nobody";
  show("#tool", facts.tool?.title ?? facts.tool?.name ?? "Preview");
  show("#caller", `${facts.server}, ${caller}`);
  document.title = `${one("#tool").textContent}: preview`;
  one("#arguments").value = JSON.stringify(callArguments, null, 2);
  one("#container").classList.toggle("has-border", facts.meta?.prefersBorder !== false);
  showProblem(facts.error);
  show("#policy", facts.policy?.replaceAll("; ", ";\n") ?? "");
  show("#meta", facts.meta ?? {});
  one("#blocked").replaceChildren();
  one("#blocked-count").value = "";
  facts.blocked?.forEach(noteBlocked);
}

async function showText(response) {
  const { result, error } = await response;
  show("#text pre", error ? error.message : textOf(result.content));
  if (error) showProblem(error.message);
}

function showProblem(text) {
  show("#problem", text ?? "");
  one("#problem").hidden = !text;
}

function show(selector, value) {
  one(selector).textContent = typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function log(from, message) {
  const item = document.createElement("li");
  const kind = message.error || message.result?.isError ? "error" : "message";
  Object.assign(item.dataset, { from, kind, method: message.method ?? "", message: JSON.stringify(message) });
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  const title = document.createElement("span");
  title.textContent = titleOf(message);
  const time = document.createElement("small");
  time.textContent = `${(performance.now() / 1000).toFixed(2)} s`;
  const text = document.createElement("pre");
  text.textContent = JSON.stringify(message, null, 2);
  summary.append(title, time);
  details.append(summary, text);
  item.append(details);
  one("#messages").append(item);
  one("#count").value = one("#messages").childElementCount;
}

function titleOf(message) {
  if (message.method) return [message.method, message.params?.name].filter(Boolean).join(" ");
  return message.error ? `error: ${message.error.message}` : `result of ${message.id}`;
}

function noteRequest(kind, text) {
  const item = document.createElement("li");
  item.textContent = `${kind}: ${text}`;
  one("#requests").append(item);
  return {};
}

function noteBlocked(text) {
  const item = document.createElement("li");
  item.textContent = text;
  one("#blocked").append(item);
  one("#blocked-count").value = one("#blocked").childElementCount;
}

function textOf(content = []) {
  return content.map((block) => block.text ?? `[${block.type}]`).join("\n");
}

for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[role=tab]")) {
      other.setAttribute("aria-selected", other === tab);
      one(`#${other.getAttribute("aria-controls")}`).hidden = other !== tab;
    }
  });
}

// The server.

async function post(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`The preview answered ${response.status}: has the command ended?`);
  return response.json();
}

const violations = new EventSource("violations");

violations.addEventListener("message", ({ data }) => {
  const report = JSON.parse(data);
  const place = `line ${report["line-number"] ?? "?"}`;
  noteBlocked(`${report["effective-directive"]} has blocked ${report["blocked-uri"]} (${place})`);
});

// The stream ends with the command.
violations.addEventListener("error", () => {
  violations.close();
  showProblem("The command has ended. Start it again, and open the new URL.");
});

options.theme.value = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
applyOptions();
load();
