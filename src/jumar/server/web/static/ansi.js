// Text of a terminal as pieces of a page: colours become classes, progress bars what is left of them.
"use strict";

const Ansi = (() => {
  const CONTROL = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
  const COLOUR = /\x1b\[([\d;:]*)m/g;

  // A progress bar rewrites its line: only what would be left on a terminal is shown.
  function clean(line) {
    if (!line.includes("\x1b")) {
      const bare = line.replace(/\r+$/, "");
      return bare.slice(bare.lastIndexOf("\r") + 1);
    }
    const kept = line.replace(CONTROL, (code) => (/^\x1b\[[\d;:]*m$/.test(code) ? code : "")).replace(/\r+((?:\x1b\[[\d;:]*m)*)$/, "$1");
    const cut = kept.lastIndexOf("\r") + 1;
    // Colours that were set before the line was rewritten still hold.
    return (kept.slice(0, cut).match(COLOUR) ?? []).join("") + kept.slice(cut);
  }

  // Of 256 colours, or of any, the nearest of the 16 that the page has.
  function nearest(red, green, blue) {
    const top = Math.max(red, green, blue);
    if (top < 60) return 8;
    const bit = (value) => (value > top / 2 ? 1 : 0);
    return bit(red) + 2 * bit(green) + 4 * bit(blue) + (top > 190 ? 8 : 0);
  }

  function fromTable(number) {
    if (number < 16) return number;
    if (number > 231) {
      const grey = 8 + 10 * (number - 232);
      return nearest(grey, grey, grey);
    }
    const level = (value) => (value ? 55 + 40 * value : 0);
    const cube = number - 16;
    return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
  }

  class Pen {
    constructor(other) {
      this.styles = new Set(other?.styles);
      this.colour = other?.colour ?? null;
      this.ground = other?.ground ?? null;
    }

    get name() {
      const names = [...this.styles];
      if (this.colour !== null) names.push(`ansi-${this.colour}`);
      if (this.ground !== null) names.push(`ansi-on-${this.ground}`);
      return names.join(" ");
    }

    apply(text) {
      const codes = text.split(/[;:]/).map(Number);
      for (let at = 0; at < codes.length; at += 1) {
        const code = codes[at];
        if (code === 38 || code === 48) {
          const colour = codes[at + 1] === 5 ? fromTable(codes[at + 2] ?? 0) : nearest(...codes.slice(at + 2, at + 5));
          at += codes[at + 1] === 5 ? 2 : 4;
          this[code === 38 ? "colour" : "ground"] = colour & 15;
        } else this.set(code);
      }
    }

    set(code) {
      const styles = { 1: "ansi-bold", 2: "ansi-dim", 3: "ansi-italic", 4: "ansi-underline" };
      if (code === 0) {
        this.styles.clear();
        this.colour = this.ground = null;
      } else if (styles[code]) this.styles.add(styles[code]);
      else if (code === 22) for (const name of ["ansi-bold", "ansi-dim"]) this.styles.delete(name);
      else if (code === 23 || code === 24) this.styles.delete(styles[code - 20]);
      else if (code === 39) this.colour = null;
      else if (code === 49) this.ground = null;
      else if (code >= 30 && code <= 37) this.colour = code - 30;
      else if (code >= 90 && code <= 97) this.colour = code - 82;
      else if (code >= 40 && code <= 47) this.ground = code - 40;
      else if (code >= 100 && code <= 107) this.ground = code - 92;
    }
  }

  function write(words, pen, target) {
    if (!words) return;
    const name = pen.name;
    if (name) {
      const span = document.createElement("span");
      span.className = name;
      span.textContent = words;
      target.append(span);
    } else if (target.lastChild?.nodeType === Node.TEXT_NODE) target.lastChild.appendData(words);
    else target.append(words);
  }

  // Clean lines at the end of an element, as text: never as markup.
  function paint(content, pen, target) {
    let at = 0;
    for (const match of content.matchAll(COLOUR)) {
      write(content.slice(at, match.index), pen, target);
      pen.apply(match[1]);
      at = match.index + match[0].length;
    }
    write(content.slice(at), pen, target);
  }

  return { clean, paint, Pen };
})();
