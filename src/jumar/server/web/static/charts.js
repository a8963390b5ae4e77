// Charts of a job, or of several: drawn when there is something, redrawn when there is more.
"use strict";

const Charts = (() => {
  // More than a chart has pixels.
  const MOST_POINTS = 800;
  const COLOURS = ["#0f8a7f", "#d9822b", "#5b6ee1", "#c2437a", "#7a8c1d", "#8a56c9", "#3a9bd1", "#b0532f"];
  const style = () => getComputedStyle(document.documentElement);
  const colour = (name) => style().getPropertyValue(name).trim();

  function short(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
    return String(Number(value.toPrecision(5)));
  }

  // An average that forgets; gaps stay gaps.
  function smoothed(values, weight) {
    if (!weight) return values;
    let kept = null;
    return values.map((value) => {
      if (value === null || value === undefined) return value;
      kept = kept === null ? value : kept * weight + value * (1 - weight);
      return kept;
    });
  }

  // Curves with different steps on one axis: uPlot wants one list of x for all.
  function joined(curves) {
    if (curves.length === 1) return [curves[0].x, curves[0].y];
    return uPlot.join(curves.map((curve) => [curve.x, curve.y]));
  }

  const clock = new Intl.DateTimeFormat(document.documentElement.lang, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const moment = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" });

  function options(host, title, curves, { log = false, time = false } = {}) {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, font: "11px system-ui" };
    return {
      width: Math.max(220, host.clientWidth),
      height: 190,
      title,
      scales: { x: { time }, y: { distr: log ? 3 : 1 } },
      axes: [time ? { ...axis, values: (_, ticks) => ticks.map((tick) => clock.format(tick * 1000)) } : axis, { ...axis, size: 58, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : short(tick))) }],
      legend: { show: true, live: true },
      cursor: { sync: { key: "job" }, drag: { x: true, y: false } },
      series: [
        time ? { label: "", value: (_, value) => (value === null ? "–" : moment.format(value * 1000)) } : { label: curves[0].axis },
        ...curves.map((curve, index) => ({
          label: curve.label ?? curve.name,
          stroke: COLOURS[(curve.colour ?? index) % COLOURS.length],
          width: 1.5,
          spanGaps: true,
          points: { show: curve.x.length < 40 },
          value: (_, value) => short(value),
        })),
      ],
    };
  }

  class Chart {
    constructor(host, title, settings = {}) {
      this.host = host;
      this.title = title;
      this.settings = settings;
      this.plot = null;
      this.key = "";
    }

    draw(curves, smoothing = 0) {
      const shown = curves.map((curve) => ({ ...curve, y: smoothed(curve.y, smoothing) }));
      const data = joined(shown);
      const key = JSON.stringify([this.settings, shown.map((curve) => curve.label ?? curve.name), data[0].length < 40]);
      if (this.plot && key === this.key) return this.plot.setData(data);
      this.plot?.destroy();
      this.key = key;
      this.plot = new uPlot(options(this.host, this.title, shown, this.settings), data, this.host);
    }

    resize() {
      this.plot?.setSize({ width: Math.max(220, this.host.clientWidth), height: 190 });
    }

    destroy() {
      this.plot?.destroy();
      this.host.remove();
    }
  }

  // Charts by title in one grid; those that are gone are taken away.
  class Grid {
    constructor(element) {
      this.element = element;
      this.charts = new Map();
      new ResizeObserver(() => this.charts.forEach((chart) => chart.resize())).observe(element);
    }

    show(groups, { smoothing = 0, log = false, time = false } = {}) {
      for (const [title, chart] of this.charts) {
        if (groups.has(title)) continue;
        chart.destroy();
        this.charts.delete(title);
      }
      for (const [title, curves] of groups) {
        if (!this.charts.has(title)) {
          const host = document.createElement("div");
          host.className = "chart";
          this.element.append(host);
          this.charts.set(title, new Chart(host, title, { log, time }));
        }
        const chart = this.charts.get(title);
        chart.settings = { log, time };
        chart.draw(curves, smoothing);
      }
    }
  }

  // What a person has chosen above charts; `show` draws again what is here, `changed` asks for something else.
  function controls(section, show) {
    const smoothing = section.querySelector("[data-smoothing]");
    const log = section.querySelector("[data-log]");
    const axis = section.querySelector("[data-axis]");
    const changed = new Set();
    smoothing.addEventListener("input", show);
    log.addEventListener("change", show);
    axis.addEventListener("change", () => changed.forEach((ask) => ask()));
    return {
      changed,
      isOverTime: () => axis.value === "time",
      query: () => `points=${MOST_POINTS}&axis=${axis.value}`,
      settings: () => ({ smoothing: Number(smoothing.value), log: log.checked }),
    };
  }

  // Ask again and again, while somebody looks and there may be more. `again`: where to be found by those
  // who have changed the address.
  function follow(address, onNews, { period = 2000, isOver = () => false, again = new Set() } = {}) {
    let seen = null;
    let timer = null;
    async function ask() {
      let wait = period;
      const asked = address();
      if (!document.hidden) {
        try {
          const answer = await fetch(seen === null ? asked : `${asked}${asked.includes("?") ? "&" : "?"}seen=${seen}`, { headers: { Accept: "application/json" } });
          if (asked !== address()) return later(0);
          if (answer.status === 200) {
            const news = await answer.json();
            seen = news.revision;
            onNews(news);
            if (news.is_complete === false) wait = 50;
            else if (isOver()) wait = null;
          } else if (answer.status >= 400 || (answer.status === 204 && isOver())) wait = null;
        } catch {
          wait = 3 * period;
        }
      }
      later(wait);
    }
    function later(wait) {
      clearTimeout(timer);
      timer = wait === null ? null : setTimeout(ask, wait);
    }
    again.add(() => {
      seen = null;
      later(0);
    });
    ask();
  }

  return { Grid, controls, follow, short };
})();
