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
  const host = window.parent;
  const root = document.documentElement;
  const pending = new Map();
  let lastId = 0;
  let size = "";
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
    if (message.method === undefined) settle(message);
    else if (message.id === undefined) notifications[message.method]?.(message.params ?? {});
    else if (Object.hasOwn(requests, message.method))
      post({ id: message.id, result: requests[message.method](message.params ?? {}) });
    else post({ id: message.id, error: { code: -32601, message: "Method not found" } });
  });

  function settle({ id, result, error }) {
    const waiting = pending.get(id);
    pending.delete(id);
    if (error) waiting?.reject(Object.assign(new Error(error.message), { code: error.code }));
    else waiting?.resolve(result);
  }

  // What a view may ask of its host. A tool that fails rejects, with its result.

  const textOf = (result) =>
    (result.content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");

  async function callTool(name, args = {}) {
    const result = await request("tools/call", { name, arguments: args });
    if (result.isError) throw Object.assign(new Error(textOf(result)), { result });
    return result;
  }

  const asContent = (text) => [{ type: "text", text }];
  const mcpApp = {
    host: { context: {}, capabilities: {}, info: {} },
    callTool,
    readResource: (uri) => request("resources/read", { uri }),
    openLink: (url) => request("ui/open-link", { url }),
    sendMessage: (text) => request("ui/message", { role: "user", content: asContent(text) }),
    updateModelContext: (context) =>
      request(
        "ui/update-model-context",
        typeof context === "string" ? { content: asContent(context) } : context,
      ),
    requestDisplayMode: (mode) => request("ui/request-display-mode", { mode }),
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
    if (context.platform) root.dataset.platform = context.platform;
    for (const [side, pixels] of Object.entries(context.safeAreaInsets ?? {}))
      root.style.setProperty(`--mcp-safe-${side}`, `${pixels}px`);
    emit("context", context);
  }

  function reportSize() {
    const { width, height } = root.getBoundingClientRect();
    const params = { width: Math.ceil(width), height: Math.ceil(height) };
    if (size === JSON.stringify(params)) return;
    size = JSON.stringify(params);
    notify("ui/notifications/size-changed", params);
  }

  // Fragments.

  const texts = () => JSON.parse(document.getElementById("mcp-app-texts")?.textContent || "{}");
  const targetOf = (element) => {
    const named = element?.closest("[data-mcp-target]")?.dataset.mcpTarget;
    if (named) return document.querySelector(named);
    return element?.closest("[data-mcp-fragment]") ?? document.querySelector("[data-mcp-fragment]");
  };

  function show(result, target = targetOf()) {
    const html = result._meta?.[FRAGMENT];
    if (target && typeof html === "string") swap(target, html);
    else if (result.isError) showError(textOf(result), target);
    emit("result", result);
  }

  function swap(target, html) {
    const focused = document.activeElement?.id;
    const position = document.activeElement?.selectionStart;
    target.innerHTML = html;
    const again = focused ? document.getElementById(focused) : null;
    again?.focus();
    if (again && position != null && again.setSelectionRange) again.setSelectionRange(position, position);
    target.querySelector("[autofocus]")?.focus();
    const context = target.querySelector("[data-mcp-context]")?.dataset.mcpContext;
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

  function valueOf(field, value) {
    const isNumber = ["number", "range"].includes(field.type) || field.dataset.mcpNumber !== undefined;
    if (isNumber) return value === "" ? null : Number(value);
    return value;
  }

  function argumentsOf(element, submitter) {
    const given = JSON.parse(element.dataset.mcpArguments || "{}");
    if (!(element instanceof HTMLFormElement)) return given;
    const args = { ...given };
    for (const field of element.elements) {
      if (!field.name || field.disabled || field.type === "file") continue;
      if (field.type === "submit" || field.type === "button") {
        if (field === submitter) args[field.name] = field.value;
      } else if (field.type === "checkbox" && element.querySelectorAll(`[name="${CSS.escape(field.name)}"]`).length === 1)
        args[field.name] = field.checked;
      else if (field.type === "checkbox")
        args[field.name] = [...(args[field.name] ?? []), ...(field.checked ? [field.value] : [])];
      else if (field.multiple) args[field.name] = [...field.selectedOptions].map((it) => it.value);
      else if (field.type !== "radio" || field.checked) {
        const value = valueOf(field, field.value);
        if (value !== null && (value !== "" || field.dataset.mcpEmpty !== undefined)) args[field.name] = value;
      }
    }
    return { ...args, ...JSON.parse(submitter?.dataset.mcpArguments || "{}") };
  }

  async function run(element, submitter) {
    const tool = submitter?.dataset.mcpTool || element.dataset.mcpTool;
    const target = targetOf(element);
    const button = submitter ?? element;
    if (button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    target?.setAttribute("aria-busy", "true");
    document.querySelectorAll("[data-mcp-error]").forEach((it) => (it.hidden = true));
    try {
      show(await callTool(tool, argumentsOf(element, submitter)), target);
    } catch (error) {
      if (error.result) show(error.result, target);
      else showError(error.message, target);
    } finally {
      button.removeAttribute("aria-disabled");
      target?.removeAttribute("aria-busy");
    }
  }

  const reportFailure = (promise) => promise.catch((error) => showError(error.message));

  document.addEventListener("submit", (event) => {
    // The page has no address to which a form could be sent.
    event.preventDefault();
    const { target: form, submitter } = event;
    if (form.dataset.mcpTool || submitter?.dataset.mcpTool) run(form, submitter);
  });

  document.addEventListener("click", (event) => {
    const element = event.target.closest(
      "a[href], [data-mcp-tool], [data-mcp-message], [data-mcp-display]",
    );
    if (!element || element instanceof HTMLFormElement || event.defaultPrevented) return;
    const { mcpTool, mcpMessage, mcpDisplay } = element.dataset;
    if (mcpTool !== undefined && element.form && element.type === "submit") return;
    const href = element.getAttribute("href");
    if (mcpTool !== undefined) run(element);
    else if (mcpMessage !== undefined) reportFailure(mcpApp.sendMessage(mcpMessage));
    else if (mcpDisplay !== undefined) reportFailure(mcpApp.requestDisplayMode(mcpDisplay));
    else if (/^(https?|mailto):/i.test(href)) reportFailure(mcpApp.openLink(element.href));
    else if (href.startsWith("#")) return;
    event.preventDefault();
  });

  document.addEventListener("change", (event) => {
    const field = event.target;
    if (field.form?.dataset.mcpTool && field.dataset.mcpSubmit !== undefined) run(field.form);
  });

  // The handshake.

  async function connect() {
    const opened = await request("ui/initialize", {
      protocolVersion: VERSION,
      appInfo: { name: document.title || "view", version: "1" },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
    });
    mcpApp.host.capabilities = opened.hostCapabilities ?? {};
    mcpApp.host.info = opened.hostInfo ?? {};
    applyContext(opened.hostContext ?? {});
    notify("ui/notifications/initialized");
    observer = new ResizeObserver(reportSize);
    observer.observe(root);
    reportSize();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", connect);
  else connect();
})();
