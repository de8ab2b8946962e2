// Adds to a page that is complete without it: values at the pointer or, with the arrow keys, of the
// chart that has the focus; and buttons that switch all charts to one metric.
(function () {
  "use strict";
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  const texts = new WeakMap();
  let here = null;

  function show(stop, x, y) {
    if (here !== stop) {
      if (here) here.classList.remove("here");
      here = stop;
      stop.classList.add("here");
      tip.textContent = texts.get(stop);
    }
    tip.hidden = false;
    const width = document.documentElement.clientWidth;
    const left = Math.max(8, Math.min(x + 14, width - tip.offsetWidth - 8));
    const below = y + 18;
    const fits = innerHeight - tip.offsetHeight - 8 > below;
    tip.style.left = left + "px";
    tip.style.top = Math.max(8, fits ? below : y - tip.offsetHeight - 12) + "px";
  }

  function hide() {
    if (here) here.classList.remove("here");
    here = null;
    tip.hidden = true;
  }

  function step(chart, by) {
    const stops = [...chart.querySelectorAll(".stop")];
    if (stops.length === 0) return;
    const at = stops.indexOf(here);
    const next = stops[Math.max(0, Math.min(stops.length - 1, at + by))];
    const box = next.getBoundingClientRect();
    show(next, box.left + box.width / 2, Math.min(box.bottom - 14, box.top + 80));
  }

  for (const stop of document.querySelectorAll(".stop")) {
    const title = stop.querySelector("title");
    texts.set(stop, title.textContent);
    title.remove();
  }
  for (const chart of document.querySelectorAll("[data-stops]")) {
    chart.tabIndex = 0;
    chart.addEventListener("pointermove", function (event) {
      if (texts.has(event.target)) show(event.target, event.clientX, event.clientY);
      else hide();
    });
    chart.addEventListener("pointerleave", hide);
    chart.addEventListener("blur", hide);
    chart.addEventListener("keydown", function (event) {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -9999, End: 9999 }[event.key];
      if (event.key === "Escape") hide();
      if (by === undefined) return;
      event.preventDefault();
      step(chart, by);
    });
  }
  addEventListener("scroll", function () { if (!document.activeElement.matches("[data-stops]")) hide(); }, { passive: true });

  const picks = [...document.querySelectorAll(".pick")];
  const pictures = new Map();
  for (const pick of picks) pictures.set(pick.dataset.metric, (pictures.get(pick.dataset.metric) || 0) + 1);
  const common = [...pictures].filter(function (entry) { return entry[1] !== 1; });
  const bar = document.querySelector(".all-tabs");
  if (common.length === 0) return;
  bar.append("All charts: ");
  for (const [metric] of common) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = metric;
    button.addEventListener("click", function () {
      for (const pick of picks) if (pick.dataset.metric === metric) pick.checked = true;
    });
    bar.append(button);
  }
  bar.hidden = false;
})();
