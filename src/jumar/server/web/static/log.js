// The live log: follows its end, brings older parts when one scrolls up, keeps a bounded part of it
// in the page. All text goes in as text, never as markup.
"use strict";

(() => {
  const OLDER_BYTES = 128 * 1024;
  const MOST_SHOWN = 4 * 1024 * 1024;
  const BLOCK_CHARS = 32 * 1024;
  const NEAR = 40;
  const CONTROL = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

  const root = document.getElementById("log");
  const lines = root.querySelector("[data-lines]");
  const text = document.getElementById("log-text");
  const edge = root.querySelector("[data-edge]");
  const status = root.querySelector("[data-status]");
  const find = root.querySelector("[data-find]");
  const found = root.querySelector("[data-found]");
  const base = `${root.dataset.api}/${root.dataset.node}/${root.dataset.rank}`;
  const encoder = new TextEncoder();

  let first = Number(root.dataset.start); // byte of the log that the shown text begins with
  let next = Number(root.dataset.end); // byte that comes after the shown text
  let following = true;
  let shown = 0; // characters in the page
  let open = null; // the line that has no end yet
  let partial = "";
  let source = null;
  let loading = false;

  // A progress bar rewrites its line: only what would be left on a terminal is shown.
  function clean(line) {
    const plain = line.replace(CONTROL, "").replace(/\r+$/, "");
    return plain.slice(plain.lastIndexOf("\r") + 1);
  }

  function block(content, start) {
    const element = document.createElement("div");
    element.textContent = content;
    element.dataset.start = start;
    shown += content.length;
    return element;
  }

  // `raw` begins at byte `start`; complete lines go into blocks, the rest waits in `open`.
  function append(raw, start) {
    const begin = start - encoder.encode(partial).length;
    const all = partial + raw;
    const cut = all.lastIndexOf("\n") + 1;
    const complete = all.slice(0, cut);
    partial = all.slice(cut);
    if (partial.length > BLOCK_CHARS && !partial.includes("\r")) {
      addBlock(partial, begin + encoder.encode(complete).length);
      partial = "";
    }
    if (complete) addBlock(complete.slice(0, -1).split("\n").map(clean).join("\n"), begin);
    open.textContent = clean(partial);
    root.querySelector("[data-nothing]")?.remove();
  }

  function addBlock(content, start) {
    const last = open.previousElementSibling;
    if (last && last.textContent.length + content.length < BLOCK_CHARS) {
      last.firstChild.appendData(`\n${content}`);
      shown += content.length + 1;
    } else {
      open.before(block(content || " ", start));
    }
  }

  // While one follows, old blocks leave at the top; scrolling up brings them back.
  function trim() {
    while (following && shown > MOST_SHOWN && text.children.length > 2) {
      const oldest = text.firstElementChild;
      shown -= oldest.textContent.length;
      oldest.remove();
      first = Number(text.firstElementChild.dataset.start ?? first);
    }
  }

  function showEdge() {
    edge.textContent = first > 0 ? words.log.older : next > 0 ? words.log.start : "";
  }

  function toEnd() {
    lines.scrollTop = lines.scrollHeight;
  }

  function setStatus(kind) {
    status.className = `status ${kind}`;
    status.textContent = words.log[kind];
  }

  function connect() {
    if (source || "final" in root.dataset) return;
    source = new EventSource(`${base}/stream?offset=${next}`);
    source.onopen = () => setStatus("live");
    source.onerror = () => setStatus("broken");
    source.addEventListener("log", (event) => {
      const piece = JSON.parse(event.data);
      next = Number(event.lastEventId);
      append(piece.text, piece.offset);
      trim();
      showEdge();
      if (following) toEnd();
    });
    source.addEventListener("state", () => {
      refreshRanks();
      htmx.trigger("#summary", "news");
    });
    source.addEventListener("refused", () => {
      root.dataset.final = "";
      disconnect();
      setStatus("refused");
    });
    source.addEventListener("end", () => {
      root.dataset.final = "";
      disconnect();
      setStatus("ended");
      const nothing = root.querySelector("[data-nothing]");
      if (nothing) nothing.textContent = words.log.silent;
    });
  }

  function disconnect() {
    source?.close();
    source = null;
  }

  async function older() {
    if (loading || first <= 0) return;
    loading = true;
    edge.textContent = words.log.loading;
    const start = Math.max(0, first - OLDER_BYTES);
    try {
      const answer = await fetch(base, { headers: { Range: `bytes=${start}-${first - 1}` } });
      if (answer.status !== 206) return;
      let bytes = new Uint8Array(await answer.arrayBuffer());
      // Begin with a whole line, or at least with a whole character.
      let cut = start > 0 ? bytes.indexOf(10) + 1 : 0;
      while (cut === 0 && start > 0 && bytes.length && (bytes[0] & 0xc0) === 0x80) {
        bytes = bytes.subarray(1);
      }
      const begin = first - bytes.length + cut;
      const content = new TextDecoder().decode(bytes.subarray(cut)).replace(/\n$/, "");
      const height = lines.scrollHeight;
      text.prepend(block(content.split("\n").map(clean).join("\n"), begin));
      first = begin;
      lines.scrollTop += lines.scrollHeight - height;
    } finally {
      loading = false;
      showEdge();
    }
  }

  function setFollowing(on) {
    following = on;
    root.querySelector('[data-toggle="follow"]').setAttribute("aria-pressed", String(on));
    if (on) toEnd();
  }

  function onScroll() {
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < NEAR;
    if (atEnd !== following) {
      following = atEnd;
      root.querySelector('[data-toggle="follow"]').setAttribute("aria-pressed", String(atEnd));
    }
    if (lines.scrollTop < 200) older();
  }

  async function refreshRanks() {
    const select = root.querySelector("select");
    const answer = await fetch(root.dataset.api);
    if (!answer.ok) return;
    const files = await answer.json();
    const severalNodes = files.some((file) => file.node > 0);
    const known = new Set([...select.options].map((option) => option.value));
    for (const file of files) {
      const value = `${file.node}-${file.rank}`;
      if (!known.has(value)) {
        select.add(new Option(fill(severalNodes ? words.log.node_rank : words.log.rank, file), value));
      }
    }
  }

  // --- search in what is shown
  let matches = [];
  let current = -1;

  function search(step) {
    const wanted = find.value.toLowerCase();
    matches = wanted ? ranges(wanted) : [];
    current = matches.length ? (current + step + matches.length) % matches.length : -1;
    found.textContent = !wanted ? "" : matches.length
      ? fill(words.log.found, { index: current + 1, count: matches.length }) : words.log.nothing;
    if (window.Highlight) {
      CSS.highlights.set("found", new Highlight(...matches));
      CSS.highlights.set("current", new Highlight(...matches.slice(current, current + 1)));
    }
    if (current >= 0) {
      setFollowing(false);
      const place = matches[current].getBoundingClientRect();
      const frame = lines.getBoundingClientRect();
      lines.scrollTop += place.top - frame.top - frame.height / 2;
    }
  }

  function ranges(wanted) {
    const all = [];
    const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const content = node.data.toLowerCase();
      for (let at = content.indexOf(wanted); at >= 0; at = content.indexOf(wanted, at + wanted.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + wanted.length);
        all.push(range);
      }
    }
    return all;
  }

  async function copy(button) {
    const content = text.innerText;
    try {
      await navigator.clipboard.writeText(content);
    } catch {
      // Browsers keep the clipboard from pages that came without TLS.
      getSelection().selectAllChildren(text);
      document.execCommand("copy");
      getSelection().removeAllRanges();
    }
    const before = button.textContent;
    button.textContent = words.log.copied;
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  // --- begin with what the server put into the page
  function begin() {
    const initial = text.textContent;
    text.textContent = "";
    open = document.createElement("div");
    text.append(open);
    if (initial) append(initial, first);
    showEdge();
    toEnd();
    connect();
  }

  lines.addEventListener("scroll", onScroll, { passive: true });
  root.querySelector('[data-toggle="follow"]').addEventListener("click", () => setFollowing(!following));
  root.querySelector('[data-toggle="wrap"]').addEventListener("click", (event) => {
    const on = lines.classList.toggle("wrap");
    event.currentTarget.setAttribute("aria-pressed", String(on));
    if (following) toEnd();
  });
  root.querySelector("button[data-end]").addEventListener("click", () => setFollowing(true));
  root.querySelector("[data-copy]").addEventListener("click", (event) => copy(event.currentTarget));
  root.querySelector("select").addEventListener("change", (event) => event.currentTarget.form.submit());
  find.addEventListener("input", () => { current = -1; search(find.value ? 1 : 0); });
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter") search(event.shiftKey ? -1 : 1);
  });
  // Browsers allow six connections to a server: a page that nobody sees gives its one back.
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  begin();
})();
