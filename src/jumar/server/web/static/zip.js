// Reads a zip file that somebody chose, so that the server gets a tar file whatever was chosen.
"use strict";

const Zip = (() => {
  const END = 0x06054b50;
  const ENTRY = 0x02014b50;
  const MOST_BYTES = 2 ** 31;
  const LONGEST_COMMENT = 65557;
  const [STORED, DEFLATED] = [0, 8];

  class Unreadable extends Error {}

  // Names without the mark of UTF-8 are what Windows in China writes, or UTF-8 all the same.
  function nameOf(bytes, isUtf8) {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return new TextDecoder(isUtf8 ? "utf-8" : "gbk").decode(bytes);
    }
  }

  async function directory(file) {
    const start = Math.max(0, file.size - LONGEST_COMMENT);
    const tail = new DataView(await file.slice(start).arrayBuffer());
    for (let at = tail.byteLength - 22; at >= 0; at -= 1) {
      if (tail.getUint32(at, true) !== END) continue;
      const [size, offset] = [tail.getUint32(at + 12, true), tail.getUint32(at + 16, true)];
      if (offset + size > file.size) break;
      return new DataView(await file.slice(offset, offset + size).arrayBuffer());
    }
    throw new Unreadable();
  }

  function entries(view) {
    const found = [];
    let at = 0;
    while (at + 46 <= view.byteLength && view.getUint32(at, true) === ENTRY) {
      const short = (place) => view.getUint16(at + place, true);
      const long = (place) => view.getUint32(at + place, true);
      const length = short(28);
      if (at + 46 + length > view.byteLength) throw new Unreadable();
      const bytes = new Uint8Array(view.buffer, at + 46, length);
      const flags = short(8);
      found.push({ name: nameOf(bytes, flags & 2048).replaceAll("\\", "/"), isSecret: flags & 1, method: short(10), packed: long(20), size: long(24), offset: long(42) });
      at += 46 + length + short(30) + short(32);
    }
    return found;
  }

  async function contentOf(file, entry) {
    if (entry.isSecret || ![STORED, DEFLATED].includes(entry.method)) throw new Unreadable();
    const head = new DataView(await file.slice(entry.offset, entry.offset + 30).arrayBuffer());
    if (head.byteLength < 30) throw new Unreadable();
    const start = entry.offset + 30 + head.getUint16(26, true) + head.getUint16(28, true);
    const packed = file.slice(start, start + entry.packed);
    if (entry.method === STORED) return packed;
    const content = await new Response(packed.stream().pipeThrough(new DecompressionStream("deflate-raw"))).blob();
    if (content.size !== entry.size) throw new Unreadable();
    return content;
  }

  // Names and contents; a folder that holds everything is left out of the names, as with a chosen folder.
  async function read(file) {
    const all = entries(await directory(file)).filter((entry) => !entry.name.endsWith("/") && !entry.name.startsWith("__MACOSX/"));
    const isOutside = (name) => name.startsWith("/") || name.split("/").includes("..");
    if (all.reduce((sum, entry) => sum + entry.size, 0) > MOST_BYTES || all.some((entry) => isOutside(entry.name))) throw new Unreadable();
    const top = all.length ? all[0].name.split("/")[0] + "/" : "";
    const cut = top && all.every((entry) => entry.name.startsWith(top)) ? top.length : 0;
    const found = [];
    for (const entry of all) found.push([entry.name.slice(cut), await contentOf(file, entry)]);
    return found;
  }

  return { read };
})();
