// A job's charts: what its logs tell, and what it uses.
"use strict";

(() => {
  const isOver = () => ["succeeded", "failed", "stopped", "timed-out", "lost"].includes(document.getElementById("summary").dataset.state);

  const metrics = document.getElementById("metrics");
  const curves = new Charts.Grid(metrics.querySelector("[data-grid]"));
  const said = JSON.parse(metrics.dataset.words);
  let latest = [];
  const chosen = Charts.controls(metrics, show);

  function show() {
    const groups = new Map();
    for (const curve of latest) {
      if (!groups.has(curve.name)) groups.set(curve.name, []);
      groups.get(curve.name).push({ ...curve, label: curve.run || curve.name });
    }
    curves.show(groups, chosen.settings());
  }

  function warn(alerts) {
    const list = metrics.querySelector("[data-alerts]");
    list.hidden = !alerts.length;
    list.replaceChildren(...alerts.map((alert) => {
      const values = Object.fromEntries(Object.entries(alert.values).map(([name, value]) => [name, typeof value === "number" ? Charts.short(value) : value]));
      const item = document.createElement("li");
      item.textContent = fill(said[alert.kind], { name: alert.name, ...values });
      return item;
    }));
  }

  Charts.follow(() => `${metrics.dataset.api}?${chosen.query()}`, (news) => {
    latest = news.curves;
    metrics.hidden = !latest.length && !news.alerts.length && !chosen.isOverTime();
    warn(news.alerts);
    show();
  }, { period: 1000, isOver, again: chosen.changed });

  const usage = document.getElementById("usage");
  const used = new Charts.Grid(usage.querySelector("[data-grid]"));
  const titles = JSON.parse(usage.dataset.words);
  Charts.follow(() => usage.dataset.api, (news) => {
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
