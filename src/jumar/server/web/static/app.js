// Times that move on, keys, and questions before something is changed. Pages work without it.
"use strict";

const words = JSON.parse(document.getElementById("words").textContent);
document.documentElement.classList.remove("no-script");

// On a phone the list of pages is wider than the screen.
document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

// --- times, said as web/times.py says them
const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

function span(seconds) {
  let left = Math.max(0, Math.floor(seconds));
  const parts = [];
  for (const [unit, size] of UNITS) {
    const number = Math.floor(left / size);
    left %= size;
    if (number) parts.push(fill(words.time[unit], { n: number }));
    else if (parts.length) break;
    if (parts.length === 2) break;
  }
  return parts.join(words.time.join) || fill(words.time.s, { n: 0 });
}

function ago(distance) {
  if (Math.abs(distance) < 5) return words.time.now;
  const seconds = Math.max(1, Math.floor(Math.abs(distance)));
  const [unit, size] = UNITS.find(([, size]) => seconds >= size);
  const text = fill(words.time[unit], { n: Math.floor(seconds / size + (distance > 0 ? 0 : 0.5)) });
  return fill(distance > 0 ? words.time.ago : words.time.ahead, { span: text });
}

const absolute = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "medium" });

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function tick() {
  const now = Date.now() / 1000;
  for (const element of document.querySelectorAll("time[data-at]")) {
    const at = Number(element.dataset.at);
    setText(element, ago(now - at));
    element.title = absolute.format(at * 1000);
  }
  for (const element of document.querySelectorAll("[data-since]")) {
    setText(element, span(now - Number(element.dataset.since)));
  }
}
tick();
setInterval(tick, 1000);

// --- news: a page that nobody sees does not ask for them
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.target.hasAttribute("data-poll")) event.preventDefault();
});
document.addEventListener("htmx:afterSwap", () => {
  tick();
  markSelected();
  showPicked();
});

// --- jobs that were ticked stay so when the list is drawn again
const picked = new Set();

function showPicked() {
  const form = document.getElementById("chosen");
  if (!form) return;
  const boxes = [...document.querySelectorAll(".pick input")];
  for (const box of boxes) box.checked = picked.has(box.value);
  const count = boxes.filter((box) => box.checked).length;
  form.hidden = count === 0;
  form.querySelector("[data-count]").textContent = count;
  form.dataset.count = count;
}
document.addEventListener("change", (event) => {
  if (!event.target.matches(".pick input")) return;
  picked[event.target.checked ? "add" : "delete"](event.target.value);
  showPicked();
});

// --- the selected row
let selected = null;
const rows = () => [...document.querySelectorAll(".jobs tr.openable")];

function markSelected() {
  for (const row of rows()) row.classList.toggle("selected", row.dataset.job === selected);
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const index = all.findIndex((row) => row.dataset.job === selected);
  const next = index < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, index + step));
  selected = all[next].dataset.job;
  markSelected();
  all[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("click", (event) => {
  const row = event.target.closest(".jobs tr.openable");
  if (!row || event.target.closest("a, .pick") || String(getSelection())) return;
  row.querySelector("a").click();
});

// --- questions
const confirmation = document.getElementById("confirm");

function ask(form) {
  const [no, yes] = confirmation.querySelectorAll("button");
  confirmation.querySelector("h2").textContent = fill(form.dataset.question, form.dataset);
  confirmation.querySelector("p").textContent = form.dataset.text;
  yes.textContent = form.dataset.button;
  yes.className = "danger" in form.dataset ? "button danger" : "button primary";
  confirmation.returnValue = "no";
  confirmation.onclose = () => {
    if (confirmation.returnValue === "yes") form.submit();
  };
  confirmation.showModal();
  ("danger" in form.dataset ? no : yes).focus();
}

document.addEventListener("submit", (event) => {
  if (confirmation && event.target.matches("form[data-question]")) {
    event.preventDefault();
    ask(event.target);
  }
});

// --- keys
const help = document.getElementById("help");
let afterG = false;

function act(name) {
  const form = document.querySelector(`form[data-action="${name}"]`);
  if (form) return form.requestSubmit();
  // On the list: the question belongs to the job's own page.
  if (selected) location.href = `/jobs/${selected}#${name}`;
}

const KEYS = {
  "/": () => document.querySelector("[data-search]")?.focus(),
  "?": () => help?.showModal(),
  j: () => move(1),
  k: () => move(-1),
  Enter: () => selected && document.getElementById(`open-${selected}`)?.click(),
  s: () => act("stop"),
  r: () => act("rerun"),
  f: () => document.querySelector('[data-toggle="follow"]')?.click(),
  e: () => document.querySelector("button[data-end]")?.click(),
};

function onKey(event) {
  const field = event.target.closest("input, select, textarea, [contenteditable]");
  if (event.key === "Escape" && field) return field.blur();
  if (field || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (afterG) {
    afterG = false;
    document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
    return event.preventDefault();
  }
  if (event.key === "g") {
    afterG = true;
    setTimeout(() => { afterG = false; }, 1000);
    return;
  }
  const button = event.key === "Enter" && event.target.closest("a, button");
  if (KEYS[event.key] && !button) {
    event.preventDefault();
    KEYS[event.key]();
  }
}
document.addEventListener("keydown", onKey);
document.querySelector("[data-help]")?.addEventListener("click", KEYS["?"]);
if (["#stop", "#rerun"].includes(location.hash)) {
  const name = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  document.querySelector(`form[data-action="${name}"]`)?.requestSubmit();
}
