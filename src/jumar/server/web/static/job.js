// A job's charts: what its logs tell, and what it uses.
"use strict";

(() => {
  const isOver = () => ["succeeded", "failed", "stopped", "timed-out", "lost"].includes(document.getElementById("summary").dataset.state);

  const metrics = document.getElementById("metrics");
  const curves = new Charts.Grid(metrics.querySelector("[data-grid]"));
  const said = JSON.parse(metrics.dataset.words);
  let latest = [];
  const smoothing = metrics.querySelector("[data-smoothing]");
  const log = metrics.querySelector("[data-log]");

  function show() {
    const groups = new Map();
    for (const curve of latest) {
      if (!groups.has(curve.name)) groups.set(curve.name, []);
      groups.get(curve.name).push({ ...curve, label: curve.run || curve.name });
    }
    curves.show(groups, { smoothing: Number(smoothing.value), log: log.checked });
    const broken = latest.filter((curve) => curve.not_finite_from !== null);
    const alert = metrics.querySelector("[data-alert]");
    alert.hidden = !broken.length;
    alert.textContent = broken.map((curve) => fill(said.not_finite, { name: curve.name, axis: curve.axis, step: curve.not_finite_from })).join(" ");
  }
  smoothing.addEventListener("input", show);
  log.addEventListener("change", show);

  Charts.follow(metrics.dataset.api, (news) => {
    latest = news.curves;
    metrics.hidden = !latest.length;
    show();
  }, { isOver });

  const usage = document.getElementById("usage");
  const used = new Charts.Grid(usage.querySelector("[data-grid]"));
  const titles = JSON.parse(usage.dataset.words);
  Charts.follow(usage.dataset.api, (news) => {
    const groups = new Map();
    for (const curve of news.curves) {
      // What the source does not tell is no empty chart.
      if (curve.y.every((value) => value === null)) continue;
      const title = titles[`${curve.card === null ? "job" : "card"}_${curve.name}`];
      if (!groups.has(title)) groups.set(title, []);
      groups.get(title).push({ x: news.times, y: curve.y, name: title, label: curve.card === null ? title : fill(titles.card, { card: curve.card }) });
    }
    usage.hidden = !groups.size || news.times.length < 2;
    if (!usage.hidden) used.show(groups, { time: true });
  }, { period: 4000, isOver });
})();
