"use strict";
// Keys, the theme, charts, and what a page says when the console itself is gone. All else is htmx.
(() => {
  const byId = (id) => document.getElementById(id);

  // --- light and dark
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const switchTheme = () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("theme", next); } catch { /* for this page only, then */ }
    drawCharts();
  };
  byId("theme").addEventListener("click", switchTheme);
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawCharts());

  // --- keys
  const places = { o: "/", t: "/topics", g: "/groups", x: "/transactions", e: "/trace", s: "/settings" };
  let isGoing = false;
  const isTyping = (target) => target.closest("input, textarea, select, dialog[open]") !== null;
  const step = (by) => {
    const rows = [...document.querySelectorAll(".rows tbody tr")].filter((row) => row.querySelector("a"));
    if (!rows.length) return;
    const here = rows.findIndex((row) => row.classList.contains("here"));
    rows.forEach((row) => row.classList.remove("here"));
    const next = rows[Math.min(Math.max(here + by, 0), rows.length - 1)];
    next.classList.add("here");
    next.querySelector("a").focus();
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && document.activeElement) document.activeElement.blur();
    if (isTyping(event.target)) return;
    if (isGoing && places[event.key]) {
      isGoing = false;
      event.preventDefault();
      location.href = places[event.key];
      return;
    }
    isGoing = event.key === "g";
    if (isGoing) setTimeout(() => { isGoing = false; }, 1500);
    const acts = { "?": () => byId("help").showModal(), d: switchTheme, j: () => step(1), k: () => step(-1), "/": () => {
      const field = document.querySelector("[data-search]");
      if (field) { field.focus(); field.select(); } else { location.href = "/topics"; }
    } };
    if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) navigator.clipboard.writeText(document.querySelector(button.dataset.copy).textContent).then(() => {
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  });

  // --- while it is open. What a person is reading with the pointer or the keyboard is not taken away.
  document.body.addEventListener("htmx:beforeRequest", (event) => {
    const isLive = (event.target.getAttribute("hx-trigger") || "").startsWith("sse:");
    const isHeld = event.target.id !== "notices" && (document.hidden || event.target.querySelector("details[open]") ||
      (String(getSelection()) && event.target.contains(getSelection().anchorNode)));
    if (isLive && isHeld) event.preventDefault();
  });
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const focused = event.detail.target.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    if (focused) document.body.addEventListener("htmx:afterSettle", () => {
      const again = [...document.querySelectorAll(".rows a")].find((link) => link.getAttribute("href") === focused);
      if (again) { again.focus({ preventScroll: true }); again.closest("tr").classList.add("here"); }
    }, { once: true });
  });
  document.body.addEventListener("htmx:sseError", () => { byId("console-away").hidden = false; });
  document.body.addEventListener("htmx:sseOpen", () => { byId("console-away").hidden = true; });

  // --- charts
  const charts = [];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => value === null ? "" : Math.abs(value) >= 1e6 ? `${+(value / 1e6).toFixed(1)}M`
    : Math.abs(value) >= 1e3 ? `${+(value / 1e3).toFixed(1)}k` : `${+value.toFixed(1)}`;
  const clock = (at_s) => new Date(at_s * 1000).toISOString().slice(11, 19);  // in UTC, as all times here
  async function drawCharts() {
    const holders = [...document.querySelectorAll(".chart[data-series]")];
    if (!holders.length || document.hidden) return;
    const answer = await (await fetch("/series.json")).json();
    charts.splice(0).forEach((chart) => chart.destroy());
    for (const holder of holders) {
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      const now = Date.now() / 1000;
      const begin = Math.min(answer.at_s[0] ?? now, now - 300);
      charts.push(new uPlot({
        width: holder.clientWidth, height: 130, cursor: { y: false }, legend: { show: false },
        scales: { x: { range: () => [begin, now] }, y: { range: (self, low, high) => [0, Math.max(high ?? 0, 1) * 1.1] } },
        axes: [{ ...axis, size: 28, values: (self, ticks) => ticks.map(clock) }, { ...axis, size: 44, values: (self, ticks) => ticks.map(short) }],
        series: [{}, { stroke: colour("--chart"), width: 1.5, fill: colour("--chart") + "22", points: { show: false } }],
      }, [answer.at_s, answer[holder.dataset.series]], holder));
    }
  }
  document.body.addEventListener("htmx:sseMessage", () => drawCharts());
  addEventListener("resize", () => drawCharts());
  drawCharts();
})();
