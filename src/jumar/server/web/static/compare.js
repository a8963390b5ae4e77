// Several jobs in the same charts.
"use strict";

(() => {
  const section = document.getElementById("compare");
  if (!section) return;
  const grid = new Charts.Grid(section.querySelector("[data-grid]"));
  const chosen = Charts.controls(section, show);
  const jobs = [...section.querySelectorAll("[data-job]")].map((element, index) => ({ id: element.dataset.job, name: element.dataset.name, index, curves: [] }));

  // Two jobs of one name are told apart by their ids.
  const isShared = (name) => jobs.filter((job) => job.name === name).length > 1;

  function show() {
    const groups = new Map();
    for (const job of jobs) {
      for (const curve of job.curves) {
        if (!groups.has(curve.name)) groups.set(curve.name, []);
        groups.get(curve.name).push({ ...curve, label: [job.name, isShared(job.name) ? job.id : "", curve.run].filter(Boolean).join(" "), colour: job.index });
      }
    }
    section.querySelector("[data-nothing]").hidden = groups.size > 0;
    grid.show(groups, chosen.settings());
  }
  for (const job of jobs) {
    Charts.follow(() => `/api/v1/jobs/${job.id}/metrics?${chosen.query()}`, (news) => {
      job.curves = news.curves;
      show();
    }, { period: 5000, again: chosen.changed });
  }
})();
