/* The host of the view of a result (MCP Apps): it answers what the view asks, in its frame.

   | state   | meaning                        | what moves it                                  |
   |---------|--------------------------------|------------------------------------------------|
   | loading | the frame loads the view       | ui/initialize: it is answered                  |
   | open    | the view has what it shows     | the next result: the frame goes with its page  |
   | failed  | no ui/initialize within WAIT   | ui/initialize, which may come later            |
   | left    | the frame loads something else | nothing: it is no longer the view              |

   The frame has no origin, so that messages to it are addressed to "*". */
"use strict";

{
    const VERSION = "2026-01-26";
    const WAIT = 5000;
    const MAX_HEIGHT = 4000;
    const METHOD_NOT_FOUND = -32601;
    const INTERNAL_ERROR = -32603;
    const VARIABLES = {
        "--color-background-primary": "--body-bg",
        "--color-background-secondary": "--darkened-bg",
        "--color-text-primary": "--body-fg",
        "--color-text-secondary": "--body-quiet-color",
        "--color-text-danger": "--error-fg",
        "--color-border-primary": "--border-color",
        "--font-sans": "--font-family-primary",
        "--font-mono": "--font-family-monospace",
    };
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const root = document.documentElement;
    let view = null;

    const REQUESTS = {
        ping: () => ({}),
        "ui/initialize": initialize,
        "ui/message": params => note("message", textOf(params.content)),
        "ui/open-link": params => note("link", String(params.url)),
        "ui/request-display-mode": () => ({mode: "inline"}),
        "ui/update-model-context": () => ({}),
    };
    const NOTIFICATIONS = {
        "ui/notifications/initialized": sendResult,
        "ui/notifications/size-changed": ({height}) => {
            if (height > 0) {
                view.frame.style.height = `${Math.min(Math.ceil(height) + 2, MAX_HEIGHT)}px`;
            }
        },
    };

    function open() {
        const place = document.querySelector("[data-view]");
        clearTimeout(view?.timer);
        view = null;
        if (!place) {
            return;
        }
        place.hidden = false;
        // With its URL before it is in the document, so that each load after the first is of something else.
        const frame = place.querySelector("iframe").cloneNode();
        frame.addEventListener("load", () => frame.addEventListener("load", () => leave(frame), {once: true}), {once: true});
        frame.src = place.dataset.view;
        view = {
            place,
            frame,
            facts: JSON.parse(place.querySelector("script").textContent),
            timer: setTimeout(() => fail(true), WAIT),
        };
        place.querySelector("iframe").replaceWith(frame);
    }

    function leave(frame) {
        if (view?.frame === frame) {
            fail(true);
            clearTimeout(view.timer);
            view = null;
        }
        frame.remove();
    }

    function fail(hasFailed) {
        view.place.querySelector("[data-view-failed]").hidden = !hasFailed;
    }

    // Messages.

    const post = message => view?.frame.contentWindow?.postMessage({jsonrpc: "2.0", ...message}, "*");

    addEventListener("message", event => {
        const message = event.data;
        if (!view || event.source !== view.frame.contentWindow || message?.jsonrpc !== "2.0") {
            return;
        }
        if (message.method && message.id === undefined) {
            NOTIFICATIONS[message.method]?.(message.params ?? {});
        } else if (message.method) {
            respond(message);
        }
    });

    async function respond({id, method, params = {}}) {
        const asked = view;
        let response = {error: {code: METHOD_NOT_FOUND, message: `This page does not offer ${method}`}};
        if (Object.hasOwn(REQUESTS, method)) {
            response = {result: REQUESTS[method](params)};
        } else if (!method.startsWith("ui/")) {
            response = await forward(method, params);
        }
        if (asked === view) {
            post({id, ...response});
        }
    }

    async function forward(method, params, isAllowed = false) {
        const token = document.querySelector(".mcp-try [name=csrfmiddlewaretoken]").value;
        try {
            const response = await fetch(view.place.dataset.view, {
                method: "POST",
                body: JSON.stringify({method, params, is_allowed: isAllowed}),
                headers: {"Content-Type": "application/json", "X-CSRFToken": token},
            });
            const {question, result, error} = await response.json();
            if (!question) {
                return error ? {error} : {result};
            }
            if (confirm(question)) {
                return await forward(method, params, true);
            }
            return {error: {code: INTERNAL_ERROR, message: "The user does not allow it"}};
        } catch (error) {
            return {error: {code: INTERNAL_ERROR, message: String(error)}};
        }
    }

    // What the view is told.

    function initialize() {
        clearTimeout(view.timer);
        fail(false);
        return {
            protocolVersion: VERSION,
            hostInfo: {name: "Django admin", version: "1"},
            hostCapabilities: {
                openLinks: {},
                serverTools: {},
                serverResources: {},
                message: {text: {}},
                updateModelContext: {text: {}, structuredContent: {}},
            },
            hostContext: {
                toolInfo: {id: "call", tool: view.facts.tool},
                displayMode: "inline",
                availableDisplayModes: ["inline"],
                locale: root.lang,
                timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
                platform: "web",
                ...look(),
            },
        };
    }

    function sendResult() {
        post({method: "ui/notifications/tool-input", params: {arguments: view.facts.arguments}});
        post({method: "ui/notifications/tool-result", params: view.facts.result});
    }

    function look() {
        const chosen = root.dataset.theme;
        const style = getComputedStyle(root);
        const variables = Object.entries(VARIABLES).map(([name, own]) => [name, style.getPropertyValue(own).trim()]);
        return {
            theme: ["light", "dark"].includes(chosen) ? chosen : dark.matches ? "dark" : "light",
            styles: {variables: Object.fromEntries(variables.filter(([, value]) => value))},
            containerDimensions: {width: view.frame.clientWidth, maxHeight: MAX_HEIGHT},
        };
    }

    function sendLook() {
        if (view) {
            post({method: "ui/notifications/host-context-changed", params: look()});
        }
    }

    dark.addEventListener("change", sendLook);
    new MutationObserver(sendLook).observe(root, {attributeFilter: ["data-theme"]});

    // What the view asks of its user.

    function note(kind, text) {
        const list = view.place.querySelector("[data-view-requests]");
        const item = document.createElement("li");
        item.append(`${list.dataset[kind]} `);
        if (kind === "link" && /^https?:/i.test(text)) {
            item.append(Object.assign(document.createElement("a"), {
                href: text, target: "_blank", rel: "noopener noreferrer", textContent: text,
            }));
        } else {
            item.append(text);
        }
        list.append(item);
        return {};
    }

    const textOf = (content = []) => [content].flat().map(block => block.text ?? `[${block.type}]`).join("\n");

    document.addEventListener("mcp:result", open);
    open();
}
