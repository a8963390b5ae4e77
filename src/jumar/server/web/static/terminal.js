// A terminal in a job: one endless answer with what its shell says, and small requests with what is typed.
// Frames are a letter, four bytes of length and the content (launch/processes/frames.py).
"use strict";
{
  const place = document.getElementById("terminal");
  const status = document.querySelector("[data-status]");
  const screen = new Terminal({ cursorBlink: true, scrollback: 10000, screenReaderMode: true });
  const fit = new FitAddon.FitAddon();
  screen.loadAddon(fit);
  screen.open(place);
  fit.fit();
  screen.focus();

  const text = new TextEncoder();
  const words = new TextDecoder();
  let input = "";
  let waiting = [];
  let sending = false;
  let ended = false;
  const LARGEST = 32768;
  // What may be on its way before the command has taken it; with more, its host hangs up.
  let room = 262144;
  const typed = [];

  function frame(letter, content) {
    const made = new Uint8Array(5 + content.length);
    made[0] = letter.charCodeAt(0);
    new DataView(made.buffer).setUint32(1, content.length);
    made.set(content, 5);
    return made;
  }

  async function send(data) {
    waiting.push(data);
    if (sending || !input) return;
    sending = true;
    // One request at a time keeps what is typed in order.
    while (waiting.length) {
      const body = new Blob(waiting);
      waiting = [];
      const answer = await fetch(input, {
        method: "POST", body, headers: { "Content-Type": "application/octet-stream" },
      }).catch(() => null);
      if (!answer || !answer.ok) break;
    }
    sending = false;
  }

  function type() {
    while (typed.length && typed[0].length <= room) {
      const piece = typed.shift();
      room -= piece.length;
      send(frame("i", piece));
    }
  }

  const json = (letter, values) => frame(letter, text.encode(JSON.stringify(values)));
  const size = () => ({ rows: screen.rows, columns: screen.cols });

  // The first reason counts: after an exit code the stream ends too.
  function end(message) {
    if (ended) return;
    ended = true;
    input = "";
    status.textContent = message || status.dataset.ended;
    screen.options.disableStdin = true;
    screen.options.cursorBlink = false;
  }

  function obey(letter, content) {
    if (letter === "o" || letter === "x") {
      screen.write(content);
    } else if (letter === "f") {
      end(JSON.parse(words.decode(content)).message);
    } else if (letter === "t") {
      room += JSON.parse(words.decode(content)).bytes;
      type();
    } else if (letter === "q") {
      end("");
    }
  }

  async function run() {
    const answer = await fetch(place.dataset.api, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ terminal: { ...size(), term: "xterm-256color" } }),
    });
    if (!answer.ok) {
      end((await answer.json()).error.message);
      return;
    }
    input = `${place.dataset.api}/${answer.headers.get("X-Session")}`;
    const reader = answer.body.getReader();
    let held = new Uint8Array(0);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const both = new Uint8Array(held.length + value.length);
      both.set(held);
      both.set(value, held.length);
      let at = 0;
      while (both.length - at >= 5) {
        const length = new DataView(both.buffer).getUint32(at + 1);
        if (both.length - at - 5 < length) break;
        obey(String.fromCharCode(both[at]), both.slice(at + 5, at + 5 + length));
        at += 5 + length;
      }
      held = both.slice(at);
    }
    end("");
  }

  screen.onData((data) => {
    const bytes = text.encode(data);
    for (let at = 0; at < bytes.length; at += LARGEST) typed.push(bytes.slice(at, at + LARGEST));
    type();
  });
  screen.onResize(() => send(json("w", size())));
  window.addEventListener("resize", () => fit.fit());
  // Who says nothing for two minutes is taken to be gone.
  setInterval(() => { if (input) send(frame("k", new Uint8Array(0))); }, 30000);
  run().catch((error) => end(String(error)));
}
