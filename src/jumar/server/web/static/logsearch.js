// Search over the whole of a log by the server: the lines that were found, with those around them.
"use strict";

(() => {
  const MOST_MARKED = 2000;
  const input = Log.root.querySelector("[data-find]");
  const said = Log.root.querySelector("[data-found]");
  const panel = Log.root.querySelector("[data-results]");
  const list = panel.querySelector("ol");
  const more = panel.querySelector("[data-more]");

  let wanted = "";
  let hits = [];
  let current = -1;
  let place = { next_offset: 0, next_line: 1, size: 1 };
  let asking = null;

  const isWhole = () => place.next_offset >= place.size;

  function tell() {
    const count = `${hits.length.toLocaleString()}${isWhole() ? "" : "+"}`;
    if (!wanted) said.textContent = "";
    else if (asking && !hits.length) said.textContent = fill(words.log.searching, { percent: Math.floor((100 * place.next_offset) / place.size) });
    else if (!hits.length) said.textContent = words.log.nothing;
    else said.textContent = current < 0 ? fill(words.log.matches, { count }) : fill(words.log.found, { index: current + 1, count });
    panel.hidden = !hits.length;
    more.hidden = isWhole();
  }

  // Ask on until something more was found; the answer to an older question is worth nothing.
  async function searchOn() {
    const mine = new AbortController();
    asking?.abort();
    asking = mine;
    const before = hits.length;
    try {
      do {
        const query = new URLSearchParams({ text: wanted, offset: place.next_offset, line: place.next_line });
        const answer = await fetch(`${Log.base}/search?${query}`, { signal: mine.signal });
        if (!answer.ok) break;
        place = await answer.json();
        for (const hit of place.hits) add(hit);
        tell();
      } while (hits.length === before && !isWhole());
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    } finally {
      if (asking === mine) {
        asking = null;
        tell();
      }
    }
  }

  function add(hit) {
    const index = hits.push(hit) - 1;
    const button = document.createElement("button");
    button.type = "button";
    const number = document.createElement("span");
    number.className = "number";
    number.textContent = hit.line.toLocaleString();
    const around = (text) => Object.assign(document.createElement("small"), { textContent: text });
    button.append(number, ...hit.before.map(around), hit.text, ...hit.after.map(around));
    button.addEventListener("click", () => go(index));
    const item = document.createElement("li");
    item.append(button);
    list.append(item);
  }

  function begin() {
    if (input.value === wanted) return;
    wanted = input.value;
    asking?.abort();
    [hits, current, place] = [[], -1, { next_offset: 0, next_line: 1, size: 1 }];
    list.textContent = "";
    tell();
    markAll();
    if (wanted) searchOn();
  }

  async function go(index) {
    // The log may have grown since its end was reached.
    if (index >= hits.length && !asking) await searchOn();
    if (!hits.length) return;
    list.children[current]?.classList.remove("here");
    current = (index + hits.length) % hits.length;
    const item = list.children[current];
    item.classList.add("here");
    item.scrollIntoView({ block: "nearest" });
    tell();
    const line = await Log.goTo(hits[current].offset, hits[current].line);
    markAll();
    Log.mark(line);
  }

  // What is loaded and holds the text; it may go over several colours.
  function markAll() {
    if (!window.Highlight) return;
    const small = wanted.toLowerCase();
    const ranges = [];
    const walker = document.createTreeWalker(Log.text, NodeFilter.SHOW_TEXT);
    for (let node = small && walker.nextNode(); node && ranges.length < MOST_MARKED; node = walker.nextNode()) {
      const content = node.data.toLowerCase();
      for (let at = content.indexOf(small); at >= 0 && ranges.length < MOST_MARKED; at = content.indexOf(small, at + small.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + small.length);
        ranges.push(range);
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
    CSS.highlights.delete("current");
  }

  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(begin, input.value ? 250 : 0);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    clearTimeout(timer);
    begin();
    if (!asking || hits.length) go(current + (event.shiftKey ? -1 : 1));
  });
  more.addEventListener("click", searchOn);
  panel.querySelector("[data-close]").addEventListener("click", () => {
    input.value = "";
    begin();
    input.focus();
  });
})();
