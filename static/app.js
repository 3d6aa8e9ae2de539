// Makes the server's pages livelier. Every page works without it; nothing here builds an address or a text of data.
"use strict";

(() => {
  const root = document.documentElement;
  root.classList.add("js");
  // htmx notes the page's address when it loads; nothing of ours is kept by the browser.
  try { sessionStorage.removeItem("htmx-current-path-for-history"); } catch { /* storage may be forbidden */ }
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const dialog = () => find("#dialog");
  const say = (text) => { find("#status").textContent = text; };

  // Live switch: a cookie of this browser, because web storage stays empty.
  const isLive = () => !/(^|; )outbox-live=off/.test(document.cookie);

  function addLiveSwitch() {
    const place = find("[data-live-place]");
    if (!place) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "live";
    button.textContent = "Live";
    button.setAttribute("aria-pressed", String(isLive()));
    button.addEventListener("click", () => {
      const off = isLive();
      document.cookie = `outbox-live=${off ? "off" : "on"}; path=/; max-age=31536000; samesite=lax`;
      button.setAttribute("aria-pressed", String(!off));
      say(off ? "Live updates are off." : "Live updates are on.");
    });
    place.replaceWith(button);
  }

  // Polls wait while somebody is at work in the region they would replace.
  function isBusy(region) {
    const selection = document.getSelection();
    const selected = selection && !selection.isCollapsed && selection.rangeCount > 0
      && selection.getRangeAt(0).intersectsNode(region);
    return !isLive() || document.hidden || dialog().open || selected
      || region.contains(document.activeElement)
      || find("input[type=checkbox]:checked", region) !== null;
  }

  let staleSince = null;
  function tellStale(failed) {
    if (!failed) staleSince = null;
    else if (staleSince === null) staleSince = new Date().toISOString().slice(11, 16);
    find("#stale").textContent = staleSince === null ? "" : `Stale since ${staleSince} UTC`;
  }

  let opened = [];
  let level = null;
  document.addEventListener("htmx:beforeRequest", (event) => {
    const region = event.detail.elt;
    if (region.matches("[data-live]") && isBusy(region)) event.preventDefault();
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt.matches("[data-live]")) tellStale(!event.detail.successful);
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const region = event.detail.target;
    opened = all("details[open]", region).map((element) => element.id).filter(Boolean);
    level = region.dataset.level ?? null;
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    const region = find("#live");
    if (region && level !== null && region.dataset.level !== level) say(region.dataset.summary);
    addSelection();
  });

  // Selecting rows.
  function addSelection() {
    for (const form of all("form[data-select]")) {
      const place = find("[data-select-all]", form);
      if (!place || place.firstElementChild) continue;
      const box = document.createElement("input");
      box.type = "checkbox";
      box.setAttribute("aria-label", "Select all on this page");
      place.append(box);
      box.addEventListener("change", () => {
        for (const one of all("input[name=ids]", form)) one.checked = box.checked;
        countSelected(form, box);
      });
      form.addEventListener("change", (event) => {
        if (event.target.name === "ids") countSelected(form, box);
      });
      countSelected(form, box);
    }
  }

  function countSelected(form, box) {
    const boxes = all("input[name=ids]", form);
    const ticked = boxes.filter((one) => one.checked).length;
    box.checked = ticked > 0 && ticked === boxes.length;
    box.indeterminate = ticked > 0 && ticked < boxes.length;
    const button = find("button[name=selected]", form);
    if (button) button.textContent = ticked ? `Retry ${ticked} selected…` : "Retry selected…";
    if (ticked || form.dataset.ticked) say(ticked ? `${ticked} selected` : "");
    form.dataset.ticked = ticked || "";
  }

  // A question page opens as a dialog over the page it was asked from.
  async function ask(url, options) {
    const answer = await fetch(url, { credentials: "same-origin", ...options });
    if (!answer.ok) throw new Error(`${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const question = find("[data-dialog-content]", page);
    if (!question) { location.assign(answer.url); return; }
    dialog().replaceChildren(document.importNode(question, true));
    dialog().showModal();
    find("[data-close]", dialog())?.focus();
  }

  function wantsDialog(form, submitter) {
    if (form.closest("dialog") || "plain" in form.dataset) return false;
    return submitter?.hasAttribute("formaction") ? submitter.hasAttribute("data-dialog") : form.hasAttribute("data-dialog");
  }

  document.addEventListener("submit", (event) => {
    const { target: form, submitter } = event;
    if (!wantsDialog(form, submitter)) return;
    event.preventDefault();
    const action = submitter?.getAttribute("formaction") ?? form.getAttribute("action");
    const body = new URLSearchParams(new FormData(form, submitter));
    // What was refused is asked again without us, so that the page says why.
    ask(action, { method: "POST", body }).catch(() => { form.dataset.plain = ""; form.requestSubmit(submitter); });
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (link.hasAttribute("data-close") && link.closest("dialog")) {
      event.preventDefault();
      dialog().close();
    } else if (link.hasAttribute("data-dialog")) {
      event.preventDefault();
      ask(link.href).catch(() => location.assign(link.href));
    }
  });

  // Keyboard: / searches.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, dialog")) return;
    const search = find("[data-search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
    search.select();
  });

  document.addEventListener("change", (event) => {
    event.target.closest("form[data-auto]")?.requestSubmit();
  });

  // A page kept by the browser after signing out is loaded anew.
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  addLiveSwitch();
  addSelection();
})();
