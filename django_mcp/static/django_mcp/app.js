/* The bridge between a view and its host, by the extension io.modelcontextprotocol/ui (2026-01-26).

   It is inlined by {% mcp_app %} and needs no other script. The object mcpApp calls the host:
   callTool, readResource, openLink, sendMessage, updateModelContext, requestDisplayMode. Events on
   the document tell what the host sends: mcp:input, mcp:input-partial, mcp:result, mcp:cancelled,
   mcp:context, mcp:error and mcp:teardown; detail has the parameters.

   Without any script of a page: [data-mcp-fragment] shows the fragment of each result; buttons and
   forms with data-mcp-tool call a tool; [data-mcp-message] sends a message of the user,
   [data-mcp-display] requests a display mode, and links open in the browser of the user. */
(() => {
  "use strict";
  const VERSION = "2026-01-26";
  const FRAGMENT = "django-mcp/html";
  const MODES = ["inline", "fullscreen", "pip"];
  const host = window.parent;
  const root = document.documentElement;
  const pending = new Map();
  const started = new WeakMap();
  const shown = new WeakMap();
  const chosen = new WeakMap();
  const changed = new WeakMap();
  let lastId = 0;
  let lastCall = 0;
  let size = {};
  let observer = null;

  // Messages.

  const post = (message) => host.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params = {}) => post({ method, params });
  const request = (method, params = {}) =>
    new Promise((resolve, reject) => {
      lastId += 1;
      pending.set(lastId, { resolve, reject });
      post({ id: lastId, method, params });
    });
  const emit = (name, detail) => document.dispatchEvent(new CustomEvent(`mcp:${name}`, { detail }));

  const requests = {
    ping: () => ({}),
    "ui/resource-teardown": (params) => {
      emit("teardown", params);
      observer?.disconnect();
      return {};
    },
  };
  const notifications = {
    "ui/notifications/tool-input": (params) => emit("input", params),
    "ui/notifications/tool-input-partial": (params) => emit("input-partial", params),
    "ui/notifications/tool-result": (params) => show(params),
    "ui/notifications/tool-cancelled": (params) => {
      emit("cancelled", params);
      showError(params.reason || texts().cancelled);
    },
    "ui/notifications/host-context-changed": (params) => applyContext(params),
  };

  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== host || message?.jsonrpc !== "2.0") return;
    const { id, method, params = {} } = message;
    if (method === undefined) settle(message);
    else if (id === undefined) Object.hasOwn(notifications, method) && notifications[method](params);
    else if (Object.hasOwn(requests, method)) post({ id, result: requests[method](params) });
    else post({ id, error: { code: -32601, message: "Method not found" } });
  });

  function settle({ id, result, error }) {
    const waiting = pending.get(id);
    pending.delete(id);
    if (error) waiting?.reject(Object.assign(new Error(error.message), { code: error.code }));
    else waiting?.resolve(result);
  }

  // What a view may ask of its host. A tool that fails rejects, with its result, as does a refusal.

  const textOf = (result) =>
    (result.content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");

  async function callTool(name, args = {}) {
    const result = await request("tools/call", { name, arguments: args });
    if (result.isError) throw Object.assign(new Error(textOf(result)), { result });
    return result;
  }

  async function requestConsent(method, params) {
    const result = await request(method, params);
    if (result?.isError) throw Object.assign(new Error(texts().failed), { result });
    return result;
  }

  async function requestDisplayMode(mode) {
    const { availableDisplayModes = [], displayMode } = mcpApp.host.context;
    if (!availableDisplayModes.includes(mode)) return { mode: displayMode };
    return request("ui/request-display-mode", { mode });
  }

  const asContent = (text) => [{ type: "text", text }];
  const mcpApp = {
    host: { context: {}, capabilities: {}, info: {} },
    callTool,
    readResource: (uri) => request("resources/read", { uri }),
    openLink: (url) => requestConsent("ui/open-link", { url }),
    sendMessage: (text) => requestConsent("ui/message", { role: "user", content: asContent(text) }),
    updateModelContext: (context) =>
      request(
        "ui/update-model-context",
        typeof context === "string" ? { content: asContent(context) } : context,
      ),
    requestDisplayMode,
    show: (result, target) => show(result, target),
  };
  window.mcpApp = mcpApp;

  // The theme, the variables and the place of the host.

  function applyContext(changed) {
    const context = Object.assign(mcpApp.host.context, changed);
    if (context.theme) {
      root.dataset.theme = context.theme;
      root.style.colorScheme = context.theme;
    }
    for (const [name, value] of Object.entries(context.styles?.variables ?? {}))
      if (name.startsWith("--") && value != null) root.style.setProperty(name, value);
    const fonts = context.styles?.css?.fonts;
    if (fonts && !document.getElementById("mcp-app-fonts")) {
      const style = Object.assign(document.createElement("style"), { id: "mcp-app-fonts" });
      style.textContent = fonts;
      document.head.append(style);
    }
    if (context.displayMode) root.dataset.displayMode = context.displayMode;
    root.dataset.displayModes = (context.availableDisplayModes ?? []).join(" ");
    if (context.platform) root.dataset.platform = context.platform;
    for (const [side, pixels] of Object.entries(context.safeAreaInsets ?? {}))
      root.style.setProperty(`--mcp-safe-${side}`, `${pixels}px`);
    emit("context", context);
  }

  function reportSize() {
    // The width includes a scrollbar: without it, a host that applies the width makes it narrower.
    const { innerWidth: width, innerHeight: frame } = window;
    const height = Math.ceil(root.getBoundingClientRect().height);
    const grown = height - size.height;
    const hasChanged = width !== size.width || height !== size.height;
    // What grows with its frame has a height of 100vh, and would grow without end.
    const follows = width === size.width && grown > 0 && grown === frame - size.frame;
    size = { width, height, frame };
    if (hasChanged && !follows) notify("ui/notifications/size-changed", { width, height });
  }

  // Fragments.

  const texts = () => JSON.parse(document.getElementById("mcp-app-texts")?.textContent || "{}");
  // A field named "dataset" would hide the property of its form.
  const attribute = (element, name) => element?.getAttribute(`data-mcp-${name}`) ?? null;
  const targetOf = (element) => {
    const selector = attribute(element?.closest("[data-mcp-target]"), "target");
    if (selector) return document.querySelector(selector);
    return element?.closest("[data-mcp-fragment]") ?? document.querySelector("[data-mcp-fragment]");
  };

  function show(result, target = targetOf()) {
    const html = result._meta?.[FRAGMENT];
    if (target && typeof html === "string") swap(target, html);
    else if (result.isError) showError(textOf(result), target);
    else if (target && !target.firstElementChild) target.textContent = textOf(result);
    emit("result", result);
  }

  function swap(target, html) {
    const focused = target.contains(document.activeElement) ? document.activeElement : null;
    const position = focused?.selectionStart;
    target.innerHTML = html;
    if (focused) {
      // A button that is gone must not send users of a keyboard back to the start.
      target.tabIndex = -1;
      const again = target.querySelector("[autofocus]") ?? document.getElementById(focused.id) ?? target;
      again.focus();
      if (again.id && again.id === focused.id && position != null) again.setSelectionRange?.(position, position);
    }
    const context = attribute(target.querySelector("[data-mcp-context]"), "context");
    if (context) mcpApp.updateModelContext(context).catch(() => {});
  }

  function showError(text, target = targetOf()) {
    emit("error", { message: text });
    let place = document.querySelector("[data-mcp-error]");
    if (!place && target) {
      place = document.createElement("p");
      place.dataset.mcpError = "";
      target.prepend(place);
    }
    if (!place) return;
    place.setAttribute("role", "alert");
    place.textContent = text || texts().failed;
    place.hidden = false;
  }

  // Buttons and forms that call tools.

  const CONTROLS = "input, select, textarea, button";

  // A checkbox without a value is true or false; those with values are a list of what is checked.
  function addField(args, field, submitter) {
    const { name, type, value, checked } = field;
    if (!name || field.matches(":disabled, [type=file], [type=reset]")) return;
    if (["submit", "button", "image"].includes(type)) {
      if (field === submitter) args[name] = value;
    } else if (type === "checkbox" && !field.hasAttribute("value")) args[name] = checked;
    else if (type === "checkbox") args[name] = [...(args[name] ?? []), ...(checked ? [value] : [])];
    else if (field.multiple && field.selectedOptions)
      args[name] = Array.from(field.selectedOptions, (option) => option.value);
    else if (type === "radio" && !checked) return;
    else if (value === "" && !field.closest("[data-mcp-empty]")) return;
    else args[name] = ["number", "range"].includes(type) ? exactNumber(value) : value;
  }

  // The number of a text; the text itself if it is empty, or if a double would change its digits.
  function exactNumber(text) {
    const number = Number(text);
    return text !== "" && digitsOf(String(number)) === digitsOf(text) ? number : text;
  }

  // The value of a number in one spelling: its digits without zeros around them, and the exponent.
  function digitsOf(text) {
    const [, sign, whole, fraction = "", exponent = 0] =
      /^([-+]?)(\d*)\.?(\d*)(?:e([-+]?\d+))?$/i.exec(text) ?? [null, "", text];
    const digits = `${whole}${fraction}`.replace(/^0+/, "");
    const significant = digits.replace(/0+$/, "");
    const zeros = digits.length - significant.length;
    const minus = sign === "-" ? "-" : "";
    return significant && `${minus}${significant}e${Number(exponent) - fraction.length + zeros}`;
  }

  function argumentsOf(element, submitter) {
    const sent = {};
    if (element instanceof HTMLFormElement)
      element.querySelectorAll(CONTROLS).forEach((field) => addField(sent, field, submitter));
    const declared = [element, submitter].map((it) => JSON.parse(attribute(it, "arguments") || "{}"));
    return { ...declared[0], ...sent, ...declared[1] };
  }

  async function run(element, submitter, isByField = false) {
    const tool = attribute(submitter, "tool") || attribute(element, "tool");
    // A changed field sends its form even while a call runs: the last choice must win.
    const button = isByField ? null : submitter ?? element;
    const target = targetOf(button ?? element);
    if (button?.getAttribute("aria-disabled") === "true") return;
    const call = (lastCall += 1);
    button?.setAttribute("aria-disabled", "true");
    target?.setAttribute("aria-busy", "true");
    if (target) started.set(target, call);
    if (isByField) chosen.set(element, call);
    // The result of an older call must not replace that of a newer one, or its failure.
    const isOutdated = () => target && call < (shown.get(target) ?? 0);
    const isOvertaken = () => isByField && chosen.get(element) !== call;
    document.querySelectorAll("[data-mcp-error]").forEach((it) => (it.hidden = true));
    try {
      const result = await callTool(tool, argumentsOf(element, submitter)).catch((error) => {
        if (error.result) return error.result;
        throw error;
      });
      if (result.isError && (isOutdated() || isOvertaken())) throw new Error(textOf(result));
      if (isOutdated()) return;
      if (target) shown.set(target, call);
      show(result, target);
    } catch (error) {
      if (isOvertaken()) return;
      if (target && !isOutdated()) shown.set(target, call);
      showError(error.message, target);
    } finally {
      button?.removeAttribute("aria-disabled");
      if (started.get(target) === call) target?.removeAttribute("aria-busy");
    }
  }

  const reportFailure = (promise) => promise.catch((error) => showError(error.message));

  document.addEventListener("submit", (event) => {
    const { target: form, submitter, defaultPrevented } = event;
    clearTimeout(changed.get(form));
    // The page has no address to which a form could be sent.
    event.preventDefault();
    if (defaultPrevented) return;
    const isByField = !submitter && !event.isTrusted;
    if (attribute(form, "tool") || attribute(submitter, "tool")) run(form, submitter, isByField);
  });

  // Some hosts allow no forms: then the browser sends no event, so the button does.
  function submit(form, submitter = null) {
    if (!form.noValidate && !submitter?.formNoValidate && !form.reportValidity()) return;
    form.dispatchEvent(new SubmitEvent("submit", { submitter, bubbles: true, cancelable: true }));
  }

  document.addEventListener("click", (event) => {
    const element = event.target.closest(
      "a[href], button, input, [data-mcp-tool]:not(form), [data-mcp-message], [data-mcp-display]",
    );
    if (!element || event.defaultPrevented) return;
    const [tool, message, mode] = ["tool", "message", "display"].map((it) => attribute(element, it));
    const isSubmit = element.form && ["submit", "image"].includes(element.type);
    const href = element.getAttribute("href");
    if (message !== null) reportFailure(mcpApp.sendMessage(message));
    else if (mode !== null) reportFailure(requestDisplayMode(mode));
    else if (isSubmit && (tool || attribute(element.form, "tool"))) submit(element.form, element);
    else if (tool !== null) run(element);
    else if (href === null || href.startsWith("#")) return;
    else if (/^(https?|mailto):/i.test(href)) reportFailure(mcpApp.openLink(element.href));
    event.preventDefault();
  });

  // Enter changes the field, and then submits the form itself: one call, by what it submits.
  document.addEventListener("change", ({ target: field }) => {
    const { form } = field;
    if (!attribute(form, "tool") || attribute(field, "submit") === null) return;
    clearTimeout(changed.get(form));
    changed.set(form, setTimeout(() => submit(form)));
  });

  // The handshake.

  async function connect() {
    const opened = await request("ui/initialize", {
      protocolVersion: VERSION,
      appInfo: { name: document.title || "view", version: "1" },
      appCapabilities: { availableDisplayModes: MODES },
    });
    mcpApp.host.capabilities = opened.hostCapabilities ?? {};
    mcpApp.host.info = opened.hostInfo ?? {};
    applyContext(opened.hostContext ?? {});
    notify("ui/notifications/initialized");
    observer = new ResizeObserver(reportSize);
    observer.observe(root);
    reportSize();
  }

  const start = () => reportFailure(connect());
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
