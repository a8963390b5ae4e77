// The times of a job's ranks as a heat map: a row per rank, a column per moment.
"use strict";

(() => {
  const section = document.getElementById("ranks");
  const said = JSON.parse(section.dataset.words);
  const svg = section.querySelector("svg");
  const LEFT = 60;
  const clock = new Intl.DateTimeFormat(document.documentElement.lang, { timeStyle: "medium", hourCycle: "h23" });

  function made(name, attributes, words = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = words;
    svg.append(element);
    return element;
  }

  const mean = (values) => {
    const known = values.filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : 0;
  };

  function draw(news) {
    section.hidden = news.ranks.length < 2;
    if (section.hidden) return;
    const height = Math.max(3, Math.min(22, 360 / news.ranks.length));
    // In the pixels of the page: words stay readable on a phone.
    const whole = svg.clientWidth || 1000;
    const width = (whole - LEFT) / news.times.length;
    const most = Math.max(...news.cells.flat(), 0.001);
    svg.setAttribute("viewBox", `0 0 ${whole} ${height * news.ranks.length}`);
    svg.replaceChildren();
    news.ranks.forEach((rank, row) => {
      const y = row * height;
      if (height > 9) made("text", { x: LEFT - 8, y: y + height * 0.72, class: "rank" }, fill(said.rank, { rank }));
      news.cells[row].forEach((value, column) => {
        if (value === null) return;
        const cell = made("rect", { x: LEFT + column * width, y, width: width + 0.2, height: height - 1, "fill-opacity": (0.08 + 0.92 * (value / most)).toFixed(3) });
        const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
        title.textContent = `${fill(said.rank, { rank })} · ${clock.format(news.times[column] * 1000)} · ${Number(value.toPrecision(3))} ms`;
        cell.append(title);
      });
    });
    const means = news.cells.map(mean);
    const slowest = means.indexOf(Math.max(...means));
    const others = mean(means.filter((_, row) => row !== slowest));
    const stands = means[slowest] > 1.5 * others && means[slowest] - others > 1;
    section.querySelector("[data-slowest]").textContent = stands ? fill(said.slowest, { rank: news.ranks[slowest], ms: Number(means[slowest].toPrecision(3)), others: Number(others.toPrecision(3)) }) : said.even;
  }

  const isOver = () => ["succeeded", "failed", "stopped", "timed-out", "lost"].includes(document.getElementById("summary").dataset.state);
  Charts.follow(() => section.dataset.api, draw, { period: 5000, isOver });
})();
