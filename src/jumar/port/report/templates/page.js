const root = document.documentElement;
const remembered = (() => { try { return localStorage.getItem("jumar-lang"); } catch { return null; } })();
const show = (lang) => { root.lang = lang; try { localStorage.setItem("jumar-lang", lang); } catch { /* a file: page may have no storage */ } };
show(remembered || ((navigator.language || "").startsWith("zh") ? "zh" : "en"));
document.getElementById("lang").onclick = () => show(root.lang === "en" ? "zh" : "en");
const search = document.getElementById("search");
const buttons = [...document.querySelectorAll("button[data-severity]")];
const items = [...document.querySelectorAll("[data-text]")].map((node) => [node, (node.dataset.text || node.textContent).toLowerCase()]);
function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const on = buttons.filter((b) => b.getAttribute("aria-pressed") === "true").map((b) => b.dataset.severity);
  let shown = 0;
  for (const [node, text] of items) {
    const right = !node.dataset.severity || on.includes(node.dataset.severity);
    node.hidden = !(right && words.every((word) => text.includes(word)));
    shown += node.hidden ? 0 : 1;
  }
  document.getElementById("none").hidden = shown > 0;
}
search.oninput = filter;
for (const button of buttons) button.onclick = () => { button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true")); filter(); };
