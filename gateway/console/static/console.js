// Optional features of the console's pages: live regions, keys, the palette, times in the reader's time zone.
// Every action works without this script. Foreign text is only set as text content; the server escapes regions.
// The types are for `.ci/console`. A selector determines the type of its elements.

const base = document.body.dataset.base;
/** @type {(selector: string, root?: ParentNode) => any} */
const $ = (selector, root = document) => root.querySelector(selector);
/** @type {(selector: string, root?: ParentNode) => any[]} */
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
/** @type {(event: Event) => HTMLElement} */
const targetOf = (event) => /** @type {HTMLElement} */ (event.target);
/** @type {(event: SubmitEvent) => HTMLFormElement} */
const formOf = (event) => /** @type {HTMLFormElement} */ (event.target);

let saying = 0;

/** @param {string} text */
function say(text) {
  const toast = $("#said");
  toast.textContent = text;
  toast.classList.add("on");
  clearTimeout(saying);
  saying = setTimeout(() => toast.classList.remove("on"), 2500);
}

// ---- times

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

/** @param {Date} moment */
function spoken(moment) {
  const seconds = (moment.valueOf() - Date.now()) / 1000;
  if (seconds > -60 && seconds < 5) return ago.format(Math.min(0, Math.round(seconds)), "second");
  if (seconds > -3600) return ago.format(Math.round(seconds / 60), "minute");
  if (seconds > -86400) return ago.format(Math.round(seconds / 3600), "hour");
  return clock.format(moment);
}

/** @param {ParentNode} root */
function tellTimes(root = document) {
  for (const time of $$("time[datetime]", root)) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.valueOf())) continue;
    time.textContent = spoken(moment);
    time.title = clock.format(moment);
  }
}

// ---- regions: parts of the page that are fetched again and replaced

/** @param {HTMLElement} region */
function isBusy(region) {
  const active = document.activeElement;
  const typing = region.contains(active) && active?.matches("input, select, textarea");
  const chosen = getSelection();
  return typing || $$("input, select, textarea", region).some(isChanged)
    || chosen !== null && String(chosen) !== "" && region.contains(chosen.anchorNode);
}

/** @param {any} field */
function isChanged(field) {
  if (field.matches("[type=checkbox]")) return field.checked !== field.defaultChecked;
  if (!field.matches("select")) return field.value !== field.defaultValue;
  /** @type {HTMLOptionElement[]} */
  const options = [...field.options];
  return !(options.find((one) => one.defaultSelected) ?? options[0])?.selected;
}

/**
 * Returns a function that restores the focus after a region has been replaced.
 * @param {HTMLElement} region
 * @returns {(next: HTMLElement) => void}
 */
function focusIn(region) {
  const active = document.activeElement;
  if (!active || !region.contains(active)) return () => {};
  /** @param {HTMLElement} root */
  const stops = (root) => $$("a, button, input, select, summary, [tabindex]", root);
  const at = stops(region).indexOf(active);
  const path = active.getAttribute("href");
  return (next) => {
    const all = stops(next);
    (all.find((one) => path && one.getAttribute("href") === path) ?? all[at])?.focus({ preventScroll: true });
  };
}

async function refresh(url = location.href, { force = false } = {}) {
  const response = await fetch(url, { headers: { Accept: "text/html" }, redirect: "follow" });
  if (hasEnded(response) || !response.ok) return false;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  goOn(page);
  for (const region of $$("[data-region]")) {
    const next = page.getElementById(region.id);
    if (!next || (!force && isBusy(region)) || same(region, next)) continue;
    const scrolled = $$(".graph", region).map((graph) => [graph.scrollLeft, graph.scrollTop]);
    const chosen = $$("[data-row]", region).findIndex((row) => row.classList.contains("cursor"));
    tellTimes(next);
    const refocus = focusIn(region);
    region.replaceWith(next);
    refocus(next);
    $$(".graph", next).forEach((graph, at) => scrolled[at] && graph.scrollTo(...scrolled[at]));
    if (chosen >= 0) $$("[data-row]", next)[chosen]?.classList.add("cursor");
  }
  dress();
  return true;
}

const texts = new WeakMap();
/** @param {HTMLElement} region @param {HTMLElement} next */
function same(region, next) {
  const html = next.outerHTML;
  const known = texts.get(region) === html;
  texts.set(next, html);
  return known;
}

// ---- a session that ends: what was typed is kept

/** @param {Response} response */
function hasEnded(response) {
  const login = new URL(response.url);
  if (login.pathname !== `${base}/login`) return false;
  login.search = String(new URLSearchParams({ next: location.pathname + location.search, ended: "page" }));
  const notice = $("#ended");
  if (!notice || !$$("input, select, textarea", $("main")).some(isChanged)) {
    location.assign(login);
    return true;
  }
  const link = $("a", notice);
  link.href = login.href;
  link.target = $("form[data-keeps]") ? "_blank" : ""; // the content of these forms would be lost on another page
  notice.hidden = false;
  return true;
}

/**
 * There is a session again: if the reader has logged in elsewhere, the forms of this page use the new session.
 * @param {Document} page
 */
function goOn(page) {
  const csrf = $("input[name=csrf]", page)?.value;
  if (csrf) for (const field of $$("input[name=csrf]")) field.value = csrf;
  if ($("#ended")) $("#ended").hidden = true;
}

// Drafts of fields are kept in this tab until they are sent. They are restored after a login or an error.
/** @type {(field: HTMLElement) => string} */
const draftOf = (field) => `draft ${field.dataset.draft}`;

function takeDrafts() {
  /** @type {string[]} */
  const sent = JSON.parse(sessionStorage.getItem("sent") ?? "[]");
  sessionStorage.removeItem("sent");
  if (document.body.dataset.undone === undefined) sent.forEach((key) => sessionStorage.removeItem(key));
  for (const field of $$("input[data-draft]")) field.value ||= sessionStorage.getItem(draftOf(field)) ?? "";
}

function keepDrafts() {
  for (const field of $$("input[data-draft]")) {
    if (field.value) sessionStorage.setItem(draftOf(field), field.value);
    else sessionStorage.removeItem(draftOf(field));
  }
}

document.addEventListener("submit", (event) => {
  if (formOf(event).matches(".who")) { // logging out
    for (const field of $$("input[data-draft]")) field.value = "";
    sessionStorage.clear();
  }
  sessionStorage.setItem("sent", JSON.stringify($$("input[data-draft]", formOf(event)).map(draftOf)));
});
addEventListener("pagehide", keepDrafts);

// ---- live updates: a stream of events for a run, polling for a list, and neither while the page is hidden

const RETRY_MS = 3000; // a browser reconnects a broken stream by itself, but not one that was refused
/** @type {EventSource | null} */
let stream = null;
let pending = 0;

function soon() {
  if (pending) return;
  pending = setTimeout(async () => {
    pending = 0;
    await refresh().catch(() => {});
    follow();
  }, 250);
}

function follow() {
  const at = $("#live")?.dataset.events;
  if (!at || document.hidden) {
    stream?.close();
    stream = null;
    return;
  }
  if (stream && stream.readyState !== EventSource.CLOSED) return;
  stream = new EventSource(at);
  for (const kind of ["planned", "step_started", "step_finished", "finished"]) stream.addEventListener(kind, soon);
  stream.addEventListener("error", () => stream?.readyState === EventSource.CLOSED && setTimeout(soon, RETRY_MS));
}

function poll() {
  const region = $("[data-poll]");
  if (!region) return;
  setInterval(() => document.hidden || refresh().catch(() => {}), Number(region.dataset.poll));
}

// ---- elements that need a script

/** @param {ParentNode} root */
function dress(root = document) {
  for (const one of $$("button[data-copy], button[data-open], input[data-all]", root)) one.hidden = false;
  tellChosen(root);
}

// ---- selected lines: a checkbox for all of them, and a button with their number

/** @param {ParentNode} root */
function tellChosen(root = document) {
  for (const button of $$("button[data-chosen]", root)) {
    const boxes = $$(`input[name^="${button.dataset.chosen}"]`, button.form);
    const count = boxes.filter((box) => box.checked).length;
    button.disabled = count === 0;
    button.textContent = count ? `Cancel ${count} chosen` : "Cancel the chosen";
  }
}

document.addEventListener("change", (event) => {
  const all = /** @type {HTMLInputElement} */ (event.target);
  const prefix = all.dataset.all;
  if (prefix && all.form) for (const box of $$(`input[name^="${prefix}"]`, all.form)) box.checked = all.checked;
  tellChosen();
});

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
  } catch {
    const box = document.createElement("textarea");
    box.value = text;
    document.body.append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    say(done ? "Copied" : "The browser does not let pages copy");
  }
}

document.addEventListener("click", (event) => {
  const button = targetOf(event).closest("button");
  if (button?.dataset.copy) copy(button.dataset.copy);
  if (button?.dataset.open === "palette") openPalette();
  /** @type {any} */ // a link of HTML or of SVG
  const link = targetOf(event).closest("a[href*='#detail']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const url = new URL(link.href ?? link.getAttribute("href"), location.href);
  if (typeof link.href === "object") url.href = new URL(link.href.baseVal, location.href).href;
  if (url.pathname !== location.pathname) return;
  event.preventDefault();
  history.pushState(null, "", url);
  showDetail();
});

async function showDetail() {
  await refresh(location.href, { force: true });
  const detail = $("#detail");
  if (detail && detail.getBoundingClientRect().top > innerHeight - 80) detail.scrollIntoView({ block: "start" });
}

addEventListener("popstate", () => refresh(location.href, { force: true }));

document.addEventListener("submit", (event) => {
  for (const button of $$("button", formOf(event))) setTimeout(() => (button.disabled = true));
});
addEventListener("pageshow", () => {
  $$("form button").forEach((button) => (button.disabled = false));
  tellChosen();
});

// ---- documents: the text of the chosen file goes into its field, and stays there while the result is inserted

for (const input of $$("input[data-into]")) {
  input.closest("[data-script]").hidden = false;
  input.addEventListener("change", async () => {
    if (input.files[0]) input.form.elements[input.dataset.into].value = await input.files[0].text();
  });
}

document.addEventListener("submit", async (event) => {
  const form = formOf(event);
  if (!form.dataset.keeps) return;
  event.preventDefault();
  const body = new URLSearchParams();
  for (const [name, value] of new FormData(form, event.submitter)) body.append(name, String(value));
  const response = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } }).catch(() => null);
  for (const button of $$("button", form)) setTimeout(() => (button.disabled = false));
  if (!response) {
    say("The gateway does not answer");
    return;
  }
  if (hasEnded(response)) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const next = page.getElementById(form.dataset.keeps) ?? $("main > *", page);
  if (!next) return;
  next.id = form.dataset.keeps;
  tellTimes(next);
  $(`#${form.dataset.keeps}`).replaceWith(next);
  dress(next);
  next.scrollIntoView({ block: "nearest" });
});

for (const select of $$("select[data-since]")) {
  for (const option of $$("option[data-hours]", select)) {
    option.value = new Date(Date.now() - Number(option.dataset.hours) * 3600e3).toISOString();
  }
}
// A browser that does not know its zone says so with a name that is none.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
for (const field of $$("input[data-zone]")) field.value = zone && zone !== "Etc/Unknown" ? zone : "";

// ---- keys

const rows = () => $$("[data-row]").filter((row) => row.offsetParent);
/** @type {Record<string, string>} */
const screens = { r: "runs", p: "playground", a: "approvals", v: "review", c: "catalogue", o: "ops" };
let going = 0;

/** @param {number} by */
function move(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("cursor"));
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
  all[at]?.classList.remove("cursor");
  next.classList.add("cursor");
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  const target = targetOf(event);
  if (target.matches("input:not([type=checkbox]), select, textarea")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (Date.now() - going < 1000 && screens[event.key]) {
    location.assign(`${base}/${screens[event.key]}`);
    return;
  }
  going = event.key === "g" ? Date.now() : 0;
  const filter = $("[data-filter]");
  if (event.key === "/" && filter) {
    event.preventDefault();
    filter.focus();
    filter.select();
  } else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "?") $("#help")?.showModal();
  else if (event.key === "x") $(".cursor td:first-child input[type=checkbox]")?.click();
  else if (/^[a-z]$/.test(event.key) && $(`[data-key=${event.key}]`)) $(`[data-key=${event.key}]`).click();
  else if (event.key === "Enter" && target.closest("a, button, summary, label") === null) {
    $(".cursor a")?.click(); // a link only: nothing is approved by one key
  }
});

// ---- palette

let asked = 0;
let filling = 0;

function openPalette() {
  const palette = $("#palette");
  if (!palette || palette.open) return;
  $("#palette-text").value = "";
  palette.showModal();
  fill("");
}

/** @param {string} text */
async function fill(text) {
  const number = ++asked;
  const response = await fetch(`${base}/palette?q=${encodeURIComponent(text)}`).catch(() => null);
  if (number !== asked || (response && hasEnded(response))) return;
  /** @type {{items: {text: string, kind: string, path: string}[]}} */
  const found = response?.ok ? await response.json() : { items: [] };
  if (number !== asked) return;
  $("#palette-items").replaceChildren(...found.items.map((item, at) => {
    const line = document.createElement("li");
    const link = document.createElement("a");
    const kind = document.createElement("span");
    kind.textContent = item.kind;
    link.href = item.path;
    link.append(document.createTextNode(item.text), kind);
    line.setAttribute("role", "option");
    line.setAttribute("aria-selected", String(at === 0));
    line.append(link);
    return line;
  }));
}

$("#palette-text")?.addEventListener("input", (/** @type {any} */ event) => {
  clearTimeout(filling);
  filling = setTimeout(() => fill(event.target.value), 120);
});
$("#palette")?.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  const lines = $$("#palette-items li");
  const at = lines.findIndex((line) => line.getAttribute("aria-selected") === "true");
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (step && lines.length) {
    event.preventDefault();
    const next = lines[(at + step + lines.length) % lines.length];
    lines.forEach((line) => line.setAttribute("aria-selected", String(line === next)));
    next.scrollIntoView({ block: "nearest" });
  } else if (event.key === "Enter") {
    event.preventDefault();
    $("a", lines[at])?.click();
  }
});
for (const dialog of $$("dialog")) {
  dialog.addEventListener("click", (/** @type {MouseEvent} */ event) => event.target === dialog && dialog.close());
}

document.addEventListener("visibilitychange", () => document.hidden || refresh().catch(() => {}).finally(follow));
addEventListener("visibilitychange", follow);
dress();
tellTimes();
setInterval(tellTimes, 20000);
follow();
poll();
takeDrafts();
