// Runs of the chosen jobs as lines over their parameters, coloured by a metric, and a table of what differs.
"use strict";

(() => {
  const section = document.getElementById("parallel");
  if (!section) return;
  const SVG = "http://www.w3.org/2000/svg";
  const SIZE = { width: 960, height: 300, left: 70, right: 90, top: 34, bottom: 18 };
  const MOST_AXES = 12;
  const picker = section.querySelector("[data-metric]");
  let runs = [];

  const isNumber = (value) => typeof value === "number";
  const label = (run) => [run.name, run.job, run.run].filter(Boolean).join(" ");
  const valueOf = (run) => {
    const found = run.metrics.find((one) => one.name === picker.value);
    return found ? found.best ?? found.last : null;
  };

  function differing() {
    const names = new Set(runs.flatMap((run) => Object.keys(run.parameters)));
    return [...names].filter((name) => new Set(runs.map((run) => JSON.stringify(run.parameters[name]))).size > 1).sort();
  }

  // A line between values tells something only where at least two runs have different ones.
  const isDrawn = (name) => new Set(runs.map((run) => run.parameters[name]).filter((value) => value !== undefined && value !== null)).size > 1;

  // Where a value stands on its axis, 0 to 1.
  function scale(values) {
    const known = values.filter((value) => value !== undefined && value !== null);
    if (known.length && known.every(isNumber)) {
      const [low, high] = [Math.min(...known), Math.max(...known)];
      // Rates are tried in powers.
      const log = low > 0 && high / low > 50;
      const place = (value) => (log ? Math.log(value) : value);
      const width = place(high) - place(low);
      return { at: (value) => (width ? (place(value) - place(low)) / width : 0.5), ends: [Charts.short(low), Charts.short(high)] };
    }
    const kinds = [...new Set(known.map(String))].sort();
    return { at: (value) => (kinds.length > 1 ? kinds.indexOf(String(value)) / (kinds.length - 1) : 0.5), ends: [kinds[0] ?? "", kinds.at(-1) ?? ""] };
  }

  function add(parent, name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  function draw() {
    const drawn = differing().filter(isDrawn);
    section.querySelectorAll("[data-lines]").forEach((one) => { one.hidden = !drawn.length; });
    const axes = [...drawn.slice(0, MOST_AXES).map((name) => ({ name, value: (run) => run.parameters[name] })), { name: picker.value, value: valueOf }];
    for (const axis of axes) axis.scale = scale(runs.map(axis.value));
    const svg = section.querySelector("svg");
    svg.replaceChildren();
    const x = (index) => SIZE.left + ((SIZE.width - SIZE.left - SIZE.right) * index) / Math.max(1, axes.length - 1);
    const y = (part) => SIZE.height - SIZE.bottom - part * (SIZE.height - SIZE.top - SIZE.bottom);
    axes.forEach((axis, index) => {
      add(svg, "line", { x1: x(index), x2: x(index), y1: y(0), y2: y(1), class: "axis" });
      add(svg, "text", { x: x(index), y: 14, class: "name" }, axis.name);
      axis.scale.ends.forEach((end, which) => add(svg, "text", { x: x(index) + 5, y: y(which) + (which ? 2 : 4), class: "end" }, end));
    });
    const last = axes.at(-1);
    for (const run of runs) {
      const points = axes.map((axis, index) => [x(index), axis.value(run), axis]).filter(([, value]) => value !== undefined && value !== null).map(([place, value, axis]) => `${place},${y(axis.scale.at(value))}`);
      const value = last.value(run);
      const colour = value === null ? "var(--muted)" : `hsl(${Math.round(210 - 190 * last.scale.at(value))} 70% 48%)`;
      const line = add(svg, "polyline", { points: points.join(" "), fill: "none", stroke: colour, "stroke-width": 2 });
      add(line, "title", {}, `${label(run)}: ${Charts.short(value)}`);
    }
  }

  function cells(row, kind, texts) {
    for (const text of texts) {
      const cell = document.createElement(kind);
      cell.textContent = text;
      row.append(cell);
    }
  }

  function table() {
    const body = section.querySelector("table");
    body.replaceChildren();
    cells(body.createTHead().insertRow(), "th", ["", ...runs.map(label)]);
    const rows = body.createTBody();
    for (const name of differing()) cells(rows.insertRow(), "td", [name, ...runs.map((run) => (isNumber(run.parameters[name]) ? Charts.short(run.parameters[name]) : run.parameters[name] ?? ""))]);
  }

  function show() {
    section.hidden = runs.length < 2 || !differing().length;
    if (section.hidden) return;
    const names = [...new Set(runs.flatMap((run) => run.metrics.map((one) => one.name)))];
    if (picker.options.length !== names.length) {
      const before = picker.value;
      picker.replaceChildren(...names.map((name) => new Option(name)));
      picker.value = names.includes(before) ? before : names.find((name) => /loss|acc/i.test(name)) ?? names[0] ?? "";
    }
    draw();
    table();
  }

  picker.addEventListener("change", draw);
  async function ask(left = 40) {
    const answer = await fetch(section.dataset.api, { headers: { Accept: "application/json" } });
    if (!answer.ok) return;
    const news = await answer.json();
    runs = news.runs;
    show();
    if (!news.is_complete && left) setTimeout(() => ask(left - 1), 500);
  }
  ask();
})();
