// Pages work without it. It adds a button that copies to each block of code, and updates
// a page with an element [data-updates] until there is none.
"use strict";
(() => {
  const texts = document.currentScript.dataset;
  const interval = 5000; // Milliseconds.

  async function copy(block) {
    try {
      await navigator.clipboard.writeText(block.textContent);
    } catch {
      // Without TLS, browsers have no clipboard but this.
      getSelection().selectAllChildren(block);
      document.execCommand("copy");
    }
  }

  function addButtons() {
    for (const block of document.querySelectorAll("main :is(pre, .secret)")) {
      const frame = document.createElement("span");
      const button = document.createElement("button");
      frame.className = "copyable";
      button.type = "button";
      button.className = "copy";
      button.textContent = texts.copy;
      button.addEventListener("click", async () => {
        await copy(block);
        button.textContent = texts.copied;
        setTimeout(() => { button.textContent = texts.copy; }, 2000);
      });
      block.replaceWith(frame);
      frame.append(block, button);
    }
  }

  async function update() {
    const main = document.querySelector("main");
    if (!main.querySelector("[data-updates]")) return;
    try {
      const response = await fetch(location.href, { credentials: "same-origin" });
      if (response.redirected || !response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const fresh = page.querySelector("main").innerHTML;
      if (fresh !== shown) {
        shown = fresh;
        main.innerHTML = fresh;
        addButtons();
      }
    } catch {
      // The site is away: the next update may find it.
    }
    setTimeout(update, interval);
  }

  let shown = document.querySelector("main").innerHTML;
  addButtons();
  setTimeout(update, interval);
})();
