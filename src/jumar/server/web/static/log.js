// The live log: follows its end, brings other parts when one scrolls or searches, keeps a bounded part
// of it in the page. All text goes in as text, never as markup.
"use strict";

const Log = (() => {
  const PART_BYTES = 128 * 1024;
  const TAIL_BYTES = 64 * 1024;
  const MOST_SHOWN = 4 * 1024 * 1024;
  const BLOCK_CHARS = 32 * 1024;
  const NEAR = 40;

  const root = document.getElementById("log");
  const lines = root.querySelector("[data-lines]");
  const text = document.getElementById("log-text");
  const edge = root.querySelector("[data-edge]");
  const status = root.querySelector("[data-status]");
  const followButton = root.querySelector('[data-toggle="follow"]');
  const base = `${root.dataset.api}/${root.dataset.node}/${root.dataset.rank}`;
  const encoder = new TextEncoder();

  let first = Number(root.dataset.start); // byte of the log that the shown text begins with
  let next = Number(root.dataset.end); // byte that comes after the shown text
  let live = !("at" in root.dataset); // whether the shown text goes to the end of the log
  let following = live;
  let shown = 0; // characters in the page
  let open = null; // the line that has no end yet
  let partial = "";
  let pen = new Ansi.Pen();
  let source = null;
  let loading = false;
  let drawn = 0; // how often the text was begun anew: what was asked for before is worth nothing

  const tidy = (content) => content.split("\n").map(Ansi.clean).join("\n");

  function block(content, start, colours) {
    const element = document.createElement("div");
    Ansi.paint(content || " ", colours, element);
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
    if (complete) addBlock(tidy(complete.slice(0, -1)), begin);
    if (partial.length > BLOCK_CHARS) {
      // Of a line without an end: what was rewritten goes, else it is cut.
      const rewritten = partial.lastIndexOf("\r", partial.length - 2) + 1;
      if (!rewritten) addBlock(Ansi.clean(partial), begin + encoder.encode(complete).length);
      partial = rewritten ? partial.slice(rewritten) : "";
    }
    open.textContent = "";
    Ansi.paint(Ansi.clean(partial), new Ansi.Pen(pen), open);
    root.querySelector("[data-nothing]")?.remove();
  }

  function addBlock(content, start) {
    const last = open.previousElementSibling;
    if (last && last.textContent.length + content.length < BLOCK_CHARS) {
      Ansi.paint(`\n${content}`, pen, last);
      shown += content.length + 1;
    } else {
      open.before(block(content, start, pen));
    }
  }

  // While one goes down, old blocks leave at the top; scrolling up brings them back.
  function trim() {
    while (shown > MOST_SHOWN && text.children.length > 2) {
      const oldest = text.firstElementChild;
      shown -= oldest.textContent.length;
      const height = oldest.offsetHeight;
      oldest.remove();
      if (!following) lines.scrollTop -= height;
      first = Number(text.firstElementChild.dataset.start ?? first);
    }
  }

  function clear(start) {
    text.textContent = "";
    open = document.createElement("div");
    text.append(open);
    [first, next, shown, partial, pen] = [start, start, 0, "", new Ansi.Pen()];
    drawn += 1;
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

  const isWaiting = (state) => ["queued", "starting"].includes(state);
  const jobState = () => document.getElementById("summary")?.dataset.state;

  function connect() {
    if (source || !live || "final" in root.dataset || document.hidden) return;
    source = new EventSource(`${base}/stream?offset=${next}`);
    source.onopen = () => setStatus(isWaiting(jobState()) ? "waiting" : "live");
    source.onerror = () => setStatus("broken");
    source.addEventListener("log", (event) => {
      const piece = JSON.parse(event.data);
      next = Number(event.lastEventId);
      append(piece.text, piece.offset);
      if (following) trim();
      showEdge();
      if (following) toEnd();
    });
    source.addEventListener("state", (event) => {
      setStatus(isWaiting(JSON.parse(event.data).state) ? "waiting" : "live");
      refreshRanks();
      htmx.trigger("#summary", "news");
    });
    source.addEventListener("refused", () => end("refused"));
    source.addEventListener("end", () => {
      end("ended");
      const nothing = root.querySelector("[data-nothing]");
      if (nothing) nothing.textContent = words.log.silent;
    });
  }

  function end(kind) {
    root.dataset.final = "";
    disconnect();
    setStatus(kind);
  }

  function disconnect() {
    source?.close();
    source = null;
  }

  // A part of the log in whole lines where there are some, else in whole characters; null when there is
  // none, or when it is no longer wanted. `whole`: whether the first line may have begun earlier.
  async function part(range, { whole = false } = {}) {
    const asked = drawn;
    const answer = await fetch(base, { headers: { Range: range } });
    if (answer.status !== 206) return null;
    let bytes = new Uint8Array(await answer.arrayBuffer());
    if (asked !== drawn) return null;
    const size = Number(answer.headers.get("X-Log-Size"));
    let start = Number(answer.headers.get("X-Log-Offset"));
    let from = start > 0 && !whole ? bytes.indexOf(10) + 1 : 0;
    while (from < bytes.length && (bytes[from] & 0xc0) === 0x80) from += 1;
    const isLast = start + bytes.length >= size;
    const to = isLast ? bytes.length : bytes.lastIndexOf(10) + 1 || bytes.length;
    bytes = bytes.subarray(from, Math.max(from, to));
    start += from;
    return { bytes, start, end: start + bytes.length, isLast, text: new TextDecoder().decode(bytes) };
  }

  async function whileLoading(action) {
    if (loading) return;
    loading = true;
    try {
      await action();
    } finally {
      loading = false;
      showEdge();
    }
  }

  const older = () => whileLoading(async () => {
    if (first <= 0) return;
    edge.textContent = words.log.loading;
    const before = await part(`bytes=${Math.max(0, first - PART_BYTES)}-${first - 1}`);
    if (!before) return;
    const height = lines.scrollHeight;
    text.prepend(block(tidy(before.text.replace(/\n$/, "")), before.start, new Ansi.Pen()));
    first = before.start;
    lines.scrollTop += lines.scrollHeight - height;
  });

  const newer = () => whileLoading(async () => {
    if (live) return;
    const asked = drawn;
    const after = await part(`bytes=${next}-${next + PART_BYTES}`, { whole: true });
    if (asked !== drawn) return;
    if (after) {
      append(after.text, after.start);
      next = after.end;
      trim();
    }
    // Nothing comes after the end.
    live = !after || after.isLast;
    connect();
  });

  const toLive = () => whileLoading(async () => {
    if (live) return;
    const tail = await part(`bytes=-${TAIL_BYTES}`);
    if (!tail) return;
    clear(tail.start);
    append(tail.text, tail.start);
    next = tail.end;
    live = true;
    connect();
  });

  function press(on) {
    following = on;
    followButton.setAttribute("aria-pressed", String(on));
  }

  async function setFollowing(on) {
    press(on);
    if (!on) return;
    await toLive();
    toEnd();
  }

  function onScroll() {
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < NEAR;
    if (live && atEnd !== following) press(atEnd);
    if (lines.scrollTop < 200) older();
    else if (!live && lines.scrollHeight - lines.scrollTop - lines.clientHeight < 200) newer();
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

  // --- one line of the log, wherever it is
  // The text nodes of line `index` of what is shown, as a range.
  function lineRange(index) {
    let left = index;
    for (const element of text.children) {
      const content = element.textContent;
      const count = content.split("\n").length;
      if (left >= count) {
        left -= count;
        continue;
      }
      let start = 0;
      for (; left > 0; left -= 1) start = content.indexOf("\n", start) + 1;
      const stop = content.indexOf("\n", start);
      return rangeIn(element, start, stop < 0 ? content.length : stop);
    }
    return null;
  }

  function rangeIn(element, start, stop) {
    const range = new Range();
    range.selectNodeContents(element);
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    let at = 0;
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const after = at + node.length;
      if (start >= at && start <= after) range.setStart(node, start - at);
      if (stop >= at && stop <= after) {
        range.setEnd(node, stop - at);
        break;
      }
      at = after;
    }
    return range;
  }

  // Show the line that byte `offset` is in, which is line number `number` of the log; gives its range.
  async function goTo(offset, number) {
    press(false);
    let index = number - 1;
    if (first > 0 || offset >= next) {
      const around = await part(`bytes=${Math.max(0, offset - PART_BYTES / 2)}-${offset + PART_BYTES / 2}`);
      if (!around) return null;
      disconnect();
      clear(around.start);
      live = around.isLast;
      append(around.text, around.start);
      next = around.end;
      index = around.bytes.subarray(0, Math.max(0, offset - around.start)).reduce((sum, byte) => sum + (byte === 10), 0);
      showEdge();
      connect();
    }
    return show(index);
  }

  function show(index) {
    const range = lineRange(index);
    if (!range) return null;
    const place = range.getBoundingClientRect();
    const frame = lines.getBoundingClientRect();
    lines.scrollTop += place.top - frame.top - frame.height / 2;
    return range;
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
    const initial = text.dataset.raw ?? text.textContent;
    const [start, stop] = [first, next];
    clear(start);
    if (initial) append(initial, start);
    next = stop;
    showEdge();
    press(following);
    if (following) toEnd();
    else mark(show(Number(root.dataset.line)));
    connect();
  }

  function mark(range) {
    if (range && window.Highlight) CSS.highlights.set("current", new Highlight(range));
  }

  lines.addEventListener("scroll", onScroll, { passive: true });
  followButton.addEventListener("click", () => setFollowing(!following));
  root.querySelector('[data-toggle="wrap"]').addEventListener("click", (event) => {
    const on = lines.classList.toggle("wrap");
    event.currentTarget.setAttribute("aria-pressed", String(on));
    if (following) toEnd();
  });
  root.querySelector("button[data-end]").addEventListener("click", () => setFollowing(true));
  root.querySelector("[data-copy]").addEventListener("click", (event) => copy(event.currentTarget));
  root.querySelector("select").addEventListener("change", (event) => event.currentTarget.form.submit());
  // Browsers allow six connections to a server: a page that nobody sees gives its one back.
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  begin();
  return { root, text, base, goTo, mark };
})();
