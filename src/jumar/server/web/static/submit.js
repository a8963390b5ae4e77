// The submit form: faults beside their fields, code sent from the browser, and the picker over the stores.
"use strict";

(() => {
  const form = document.getElementById("job-form");
  const said = JSON.parse(form.dataset.words);

  // --- faults, as the server's answer names them
  const touched = new Set();
  form.addEventListener("input", (event) => touched.add(event.target.name));
  form.addEventListener("change", (event) => touched.add(event.target.name));

  function markFaults() {
    const faults = new Map([...document.querySelectorAll("#preview [data-of]")].map((item) => [item.dataset.of, item.dataset.text]));
    for (const field of form.querySelectorAll("[data-field]")) {
      // What the server said of a form that was sent stays until the field is changed.
      if (!touched.has(field.dataset.field)) continue;
      const words = faults.get(field.dataset.field);
      field.querySelector("[data-fault]").textContent = words ?? "";
      field.querySelector("input, select, textarea")?.setAttribute("aria-invalid", String(words !== undefined));
      if (words) field.closest("details").open = true;
    }
  }
  const refused = [...form.querySelectorAll("[data-fault]")].filter((told) => told.textContent.trim());
  const wrong = refused.map((told) => told.closest("[data-field]").querySelector("input, select, textarea"));
  for (const input of wrong) input?.setAttribute("aria-invalid", "true");
  wrong[0]?.focus();
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "preview") markFaults();
  });

  // --- code: a tar file made here, so that the server gets one thing whatever was chosen
  const LEFT_OUT = new Set([".git", "__pycache__", ".venv", "node_modules"]);
  const encoder = new TextEncoder();

  function header(name, size, type) {
    const block = new Uint8Array(512);
    const put = (at, words) => block.set(encoder.encode(words), at);
    const octal = (number, digits) => number.toString(8).padStart(digits, "0");
    block.set(encoder.encode(name).subarray(0, 100), 0);
    put(100, type === "x" ? "0000644" : "0000755");
    put(108, "0000000"); put(116, "0000000");
    put(124, octal(size, 11)); put(136, octal(0, 11));
    put(148, "        "); put(156, type); put(257, "ustar"); put(263, "00");
    put(148, `${octal(block.reduce((sum, byte) => sum + byte, 0), 6)}\0 `);
    return block;
  }

  const padding = (size) => new Uint8Array((512 - (size % 512)) % 512);

  // Long and non-ASCII names go into a record of their own, whose length counts itself.
  function nameRecord(name) {
    const rest = encoder.encode(` path=${name}\n`).length;
    let length = rest + 1;
    while (String(length).length + rest !== length) length = String(length).length + rest;
    const record = encoder.encode(`${length} path=${name}\n`);
    return [header("././@PaxHeader", record.length, "x"), record, padding(record.length)];
  }

  function tarOf(files) {
    const parts = [];
    for (const [name, file] of files) {
      parts.push(...nameRecord(name), header(name, file.size, "0"), file, padding(file.size));
    }
    return new Blob([...parts, new Uint8Array(1024)], { type: "application/x-tar" });
  }

  async function named(input) {
    if (input.dataset.upload === "zip") return Zip.read(input.files[0]);
    return [...input.files].map((file) => [file.webkitRelativePath.split("/").slice(1).join("/") || file.name, file]);
  }

  async function chosen(input) {
    return (await named(input)).filter(([path]) => !path.split("/").some((part) => LEFT_OUT.has(part))).sort(([a], [b]) => (a < b ? -1 : 1));
  }

  // Of several choices the last counts, however long the others take.
  let choice = 0;
  let sending = null;

  async function upload(input) {
    const mine = ++choice;
    sending?.abort();
    const shown = form.querySelector("[data-uploaded]");
    let files;
    let trouble = null;
    try {
      files = await chosen(input);
      trouble = files.length ? null : said.no_files;
    } catch {
      trouble = said.bad_zip;
    }
    if (mine !== choice) return;
    if (trouble) {
      shown.textContent = trouble;
      return;
    }
    const request = new XMLHttpRequest();
    sending = request;
    request.open("POST", "/api/v1/code");
    request.setRequestHeader("Content-Type", "application/x-tar");
    request.upload.onprogress = (event) => {
      shown.textContent = fill(said.sending, { percent: Math.round((100 * event.loaded) / Math.max(1, event.total)) });
    };
    request.onerror = () => { shown.textContent = said.not_sent; };
    request.onload = () => {
      const answer = JSON.parse(request.responseText || "{}");
      if (request.status !== 201) {
        shown.textContent = answer.error?.message ?? said.not_sent;
        return;
      }
      form.elements.archive.value = answer.archive;
      form.elements.code_from.value = "upload";
      shown.textContent = fill(said.sent, { count: files.length, digest: answer.archive.slice(0, 12) });
      touched.add("archive");
      htmx.trigger(form, "uploaded");
    };
    request.send(tarOf(files));
  }
  for (const input of form.querySelectorAll("[data-upload]")) {
    input.addEventListener("change", (event) => {
      event.stopPropagation();
      if (input.files.length) upload(input).finally(() => { input.value = ""; });
    });
  }

  // --- the picker
  const picker = document.getElementById("picker");
  let picking = null;
  document.addEventListener("click", (event) => {
    const pick = event.target.closest("[data-pick]");
    if (pick) {
      picking = form.elements[pick.dataset.pick];
      picker.showModal();
      htmx.ajax("GET", "/submit/browse", { target: "#picker-list", swap: "innerHTML" });
    }
    const take = event.target.closest("[data-take]");
    if (!take || !picking) return;
    const place = take.dataset.take;
    if (picking.tagName === "INPUT") picking.value = place;
    else {
      // The usual name first; what already has a name keeps it.
      const usual = picking.name === "inputs" ? "data_url" : "train_url";
      const lines = picking.value.split("\n").filter((line) => line.trim());
      const taken = new Set(lines.map((line) => line.split("=")[0].trim()));
      let name = usual;
      for (let number = 2; taken.has(name); number += 1) name = `${usual}${number}`;
      picking.value = [...lines, `${name}=${place}`].join("\n");
    }
    picker.close();
    picking.dispatchEvent(new Event("change", { bubbles: true }));
    picking.focus();
  });
})();
