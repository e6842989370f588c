// What the curves are at under the pointer. The page says everything without it.
for (const chart of document.querySelectorAll('.chart')) {
  const held = JSON.parse(chart.dataset.chart), tip = chart.querySelector('.tip');
  const hair = document.createElement('div'); hair.className = 'hair'; hair.hidden = true; chart.append(hair);
  const nearest = (times, at) => {
    let best = -1;
    times.forEach((time, i) => { if (best < 0 || Math.abs(time - at) < Math.abs(times[best] - at)) best = i; });
    return best;
  };
  chart.addEventListener('pointermove', event => {
    const box = chart.getBoundingClientRect(), share = (event.clientX - box.left) / box.width;
    const along = (share - held.left) / (held.right - held.left);
    if (along < 0 || along > 1) { tip.hidden = hair.hidden = true; return; }
    const at = held.from + along * (held.to - held.from);
    const rows = held.series.flatMap(series => {
      const i = nearest(series.at, at), value = i < 0 ? null : series.is[i];
      return value === null ? [] : [[series.name, value]];
    });
    tip.replaceChildren(new Date(at / 1000).toISOString().slice(11, 23));
    for (const [name, value] of rows) {
      const row = document.createElement('div');
      row.textContent = `${name}: ${value.toLocaleString('en')} ${held.unit}`;
      tip.append(row);
    }
    tip.hidden = hair.hidden = false;
    hair.style.left = `${event.clientX - box.left}px`;
    const x = event.clientX - box.left;
    tip.style.left = x > box.width / 2 ? '' : `${x + 12}px`;
    tip.style.right = x > box.width / 2 ? `${box.width - x + 12}px` : '';
  });
  chart.addEventListener('pointerleave', () => { tip.hidden = hair.hidden = true; });
}
