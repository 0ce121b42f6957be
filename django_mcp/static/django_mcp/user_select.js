// Names the controls of select2 as the label of their field does, which select2 leaves out.
"use strict";
addEventListener("DOMContentLoaded", () => {
  // After the script of Django that makes the controls, which waits for jQuery.
  django.jQuery(() => {
    for (const select of document.querySelectorAll("select.admin-autocomplete")) {
      const name = select.labels[0]?.textContent ?? select.getAttribute("aria-label");
      // The box has the name of the text within it.
      const text = select.nextElementSibling?.querySelector("[role=textbox]");
      if (name && text) text.setAttribute("aria-label", name);
    }
  });
});
