// Charts of a job, or of several: drawn when there is something, redrawn when there is more.
"use strict";

const Charts = (() => {
  // More than a chart has pixels.
  const MOST_POINTS = 800;
  const HEIGHT = 180;
  const COLOURS = ["#0f8a7f", "#d9822b", "#5b6ee1", "#c2437a", "#7a8c1d", "#8a56c9", "#3a9bd1", "#b0532f"];
  // Between two steps there is none: no tick at 0.5.
  const WHOLE = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
  const isWhole = (curve) => curve.x.every(Number.isInteger);
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
  const seconds = new Intl.DateTimeFormat(document.documentElement.lang, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  // Ticks less than a minute apart would all read the same.
  const times = (ticks) => ticks.map((tick) => (ticks.length > 1 && ticks[1] - ticks[0] < 60 ? seconds : clock).format(tick * 1000));
  // Where all is zero, uPlot would draw up to 100, as if there were that many cores.
  const spread = (_, low, high) => (low === null ? [null, null] : low === 0 && high === 0 ? [0, 1] : uPlot.rangeNum(low, high, 0.1, true));
  const places = JSON.parse(document.getElementById("words").textContent).axis;
  const place = (axis, x) => (places[axis] ?? "{x}").replace("{x}", short(x));
  const moment = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" });

  function options(width, curves, { log = false, time = false } = {}, onCursor) {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), size: 4 }, font: "11px system-ui" };
    const across = { ...axis, size: 28, incrs: time || !curves.every(isWhole) ? undefined : WHOLE };
    return {
      width,
      height: HEIGHT,
      scales: { x: { time }, y: log ? { distr: 3 } : { range: spread } },
      axes: [time ? { ...across, values: (_, ticks) => times(ticks), space: 64 } : across, { ...axis, size: 58, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : short(tick))) }],
      legend: { show: false },
      cursor: { sync: { key: "job" }, drag: { x: true, y: false } },
      hooks: { setCursor: [onCursor], setData: [onCursor] },
      series: [
        {},
        ...curves.map((curve, index) => ({
          stroke: shade(curve, index),
          width: 1.5,
          spanGaps: true,
          points: { show: curve.x.length < 40, fill: colour("--surface") },
        })),
      ],
    };
  }

  const shade = (curve, index) => COLOURS[(curve.colour ?? index) % COLOURS.length];

  function made(name, parent, words = "") {
    const element = document.createElement(name);
    element.textContent = words;
    parent.append(element);
    return element;
  }

  function lastOf(values) {
    for (let place = values.length - 1; place >= 0; place -= 1) {
      if (values[place] !== null && values[place] !== undefined) return values[place];
    }
    return null;
  }

  class Chart {
    constructor(host, title, settings = {}) {
      this.host = host;
      this.settings = settings;
      this.plot = null;
      this.key = "";
      this.curves = [];
      const head = made("div", host);
      head.className = "chart-head";
      made("h3", head, title);
      this.value = made("output", head);
      this.body = made("div", host);
      this.legend = made("ul", host);
      this.legend.className = "legend";
    }

    draw(curves, smoothing = 0) {
      const shown = curves.map((curve) => ({ ...curve, y: smoothed(curve.y, smoothing) }));
      const data = joined(shown);
      const key = JSON.stringify([this.settings, shown.map((curve) => curve.label ?? curve.name), data[0].length < 40]);
      this.curves = shown;
      if (this.plot && key === this.key) return this.plot.setData(data);
      this.plot?.destroy();
      this.key = key;
      this.plot = new uPlot(options(this.width(), shown, this.settings, () => this.tell()), data, this.body);
      this.list();
      this.tell();
    }

    // One name for each of several curves; a click hides it.
    list() {
      this.legend.hidden = this.curves.length < 2;
      this.legend.replaceChildren();
      if (this.legend.hidden) return;
      this.curves.forEach((curve, index) => {
        const button = made("button", made("li", this.legend));
        button.type = "button";
        button.setAttribute("aria-pressed", "true");
        made("i", button).style.background = shade(curve, index);
        made("span", button, curve.label ?? curve.name);
        made("b", button);
        button.addEventListener("click", () => {
          const show = button.getAttribute("aria-pressed") !== "true";
          button.setAttribute("aria-pressed", String(show));
          this.plot.setSeries(index + 1, { show });
        });
      });
    }

    // What the curves are under the cursor; where there is none, what they are now.
    tell() {
      if (!this.plot) return;
      const at = this.plot.cursor.idx ?? null;
      const [x, ...values] = this.plot.data;
      const told = values.map((one) => short(at === null ? lastOf(one) : one[at]));
      const where = at === null ? "" : this.settings.time ? moment.format(x[at] * 1000) : place(this.curves[0].axis, x[at]);
      const alone = this.curves.length === 1 ? told[0] : "";
      this.value.textContent = [where, alone].filter(Boolean).join(" · ");
      this.legend.querySelectorAll("b").forEach((element, index) => { element.textContent = told[index]; });
    }

    width() {
      return Math.max(220, this.host.clientWidth);
    }

    resize() {
      this.plot?.setSize({ width: this.width(), height: HEIGHT });
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
