/* Shows the messages of a call while they come, and looks again at what goes on.

   Without this script, the page waits for the answer, and its buttons do the rest. */
"use strict";

{
    const LINES = "application/x-ndjson";
    const page = document.querySelector(".mcp-try");
    const live = page.querySelector("[data-live]");
    let running = null;
    let timer = null;

    const part = name => page.querySelector(`[data-part="${name}"]`);

    async function* linesOf(response) {
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let text = "";
        for (;;) {
            const {done, value} = await reader.read();
            if (done) {
                return;
            }
            const lines = (text + value).split("\n");
            text = lines.pop();
            yield* lines.map(JSON.parse);
        }
    }

    function showMessage(event) {
        const item = document.createElement("li");
        const details = document.createElement("details");
        const summary = document.createElement("summary");
        const direction = document.createElement("span");
        const body = document.createElement("pre");
        direction.className = "mcp-try-direction";
        direction.textContent = event.label;
        summary.append(direction, " ", event.summary);
        body.textContent = event.text;
        details.append(summary, body);
        item.append(details);
        live.querySelector("[data-log]").append(item);
        if (event.progress) {
            showProgress(event.progress);
        }
    }

    function showProgress({progress, total, message}) {
        const bar = live.querySelector("progress");
        if (total) {
            bar.max = total;
            bar.value = progress;
        }
        const numbers = total ? `${progress} / ${total}` : String(progress);
        live.querySelector("[data-progress-text]").textContent = [numbers, message].filter(Boolean).join(" · ");
    }

    function showPage(event, isLook) {
        live.hidden = true;
        part("result").hidden = false;
        const form = part("form");
        if (event.form && (event.has_errors || form.querySelector("[data-has-errors]"))) {
            form.innerHTML = event.form;
        }
        const opened = [...part("result").querySelectorAll("details")].map(each => each.open);
        part("result").innerHTML = event.result;
        showCopies();
        document.dispatchEvent(new Event("mcp:result"));
        if (isLook) {
            part("result").querySelectorAll("details").forEach((each, index) => {
                each.open = opened[index] || false;
            });
        }
        const target = page.querySelector(event.focus || "#mcp-try-result");
        if (target && !isLook) {
            target.focus();
        }
    }

    // Buttons that copy are shown where there is a script.
    function showCopies() {
        page.querySelectorAll("[data-copy]").forEach(button => { button.hidden = false; });
    }

    async function copy(button) {
        const block = button.previousElementSibling;
        try {
            await navigator.clipboard.writeText(block.textContent);
        } catch {
            // Without TLS, browsers have no clipboard but this.
            getSelection().selectAllChildren(block);
            document.execCommand("copy");
        }
        const label = button.textContent;
        button.textContent = button.dataset.copied;
        setTimeout(() => { button.textContent = label; }, 2000);
    }

    function begin(isLook) {
        clearTimeout(timer);
        page.querySelector("[data-failed]").hidden = true;
        if (isLook) {
            return;
        }
        const bar = live.querySelector("progress");
        bar.removeAttribute("value");
        live.querySelector("[data-progress-text]").textContent = "";
        live.querySelector("[data-log]").replaceChildren();
        live.hidden = false;
        part("result").hidden = true;
        page.setAttribute("aria-busy", "true");
    }

    function end() {
        live.hidden = true;
        part("result").hidden = false;  // Also where the call was cancelled.
        page.removeAttribute("aria-busy");
        const next = page.querySelector("[data-look]");
        if (next) {
            timer = setTimeout(() => look(next), Number(next.dataset.look));
        }
    }

    function look(form) {
        if (document.hidden) {
            timer = setTimeout(() => look(form), 1000);
            return;
        }
        send(form, form.querySelector("[name=look]"), true);
    }

    async function send(form, button, isLook) {
        if (running) {
            running.abort();
        }
        const own = new AbortController();
        running = own;
        const data = new FormData(form);
        data.set(button.name, button.value);
        begin(isLook);
        try {
            const response = await fetch(form.action, {
                method: "POST",
                body: data,
                headers: {Accept: LINES},
                signal: own.signal,
            });
            if (response.headers.get("Content-Type") !== LINES) {
                throw new Error("The page is not there any more");
            }
            for await (const event of linesOf(response)) {
                if (event.type === "message" && !isLook) {
                    showMessage(event);
                } else if (event.type === "page") {
                    showPage(event, isLook);
                }
            }
        } catch (error) {
            if (error.name !== "AbortError") {
                page.querySelector("[data-failed]").hidden = false;
            }
        }
        if (running === own) {
            running = null;
            end();
        }
    }

    page.addEventListener("submit", event => {
        if (event.target.matches("[data-try]") && event.submitter) {
            event.preventDefault();
            send(event.target, event.submitter, false);
        }
    });

    page.addEventListener("click", event => {
        if (event.target.matches("[data-copy]")) {
            copy(event.target);
        }
    });

    showCopies();
    live?.querySelector("[data-cancel]").addEventListener("click", () => running?.abort());

    if (live) {
        end();
    }
}
