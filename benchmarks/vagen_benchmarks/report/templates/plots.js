"use strict";
/* Plots as inline SVG. They show what the filters leave of environments, always for all agents. */

const agents = () => [...new Set(page.rows.map((row) => row.agent))];
const colour = (agent) => `var(--agent${agents().indexOf(agent) % 6})`;

function shape(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
const words = (text, x, y, attributes = {}) => shape("text", { x, y, ...attributes }, text);
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
/* A task without what its neighbours share: “Navigation base” for `vagen/Navigation-v0 eval_set=base`. */
const brief = (task) => bare(task).replace(/-v\d+(?= |$)/, "").replace(/ \w+=/g, " ");
function hint(node, text) { node.append(shape("title", {}, text)); return node; }

function figure(title, width, height, ...shapes) {
  const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title }, ...shapes);
  return el("figure", { className: "plot" }, el("figcaption", {}, title), picture);
}
/* A scale of shares from 0 to 1, with its lines. */
function shares(left, right, top, bottom) {
  const x = (share) => left + share * (right - left);
  const lines = [0, 0.25, 0.5, 0.75, 1].map((share) => shape("g", {},
    shape("path", { d: `M${x(share)} ${top}V${bottom}`, class: "grid" }), words(`${100 * share} %`, x(share), bottom + 13, { "text-anchor": "middle" })));
  return [x, lines];
}

/* Success with its interval, a line for each environment and agent. A click shows its episodes. */
function successPlot(rows) {
  const left = 136, width = 410, step = 17, marks = [];
  let y = 6, last = null;
  for (const row of rows) {
    if (row.task !== last) { y += last === null ? 6 : 12; marks.push(words(cut(brief(row.task), 19), 0, y + 4, { class: "label" })); }
    last = row.task;
    marks.push([row, y]);
    y += step;
  }
  const [x, lines] = shares(left, width - 24, 0, y - 4);
  const shapes = marks.map((mark) => {
    if (!Array.isArray(mark)) return mark;
    const [row, at] = mark, paint = colour(row.agent);
    if (row.success === null) return words("nothing was played", left, at + 4);
    const group = shape("g", { class: "pick" }, shape("rect", { x: left, y: at - step / 2, width: width - left, height: step, opacity: 0 }),
      shape("path", { d: `M${x(row.low)} ${at}H${x(row.high)}m0 -4v8M${x(row.low)} ${at - 4}v8`, stroke: paint, fill: "none", "stroke-width": 1.6 }),
      shape("circle", { cx: x(row.success), cy: at, r: 4.5, fill: paint }));
    group.onclick = () => choose({ task: row.task, agent: row.agent, outcome: "", problem: "" });
    return hint(group, `${row.agent}: ${percent(row.success)}, 95 % interval ${percent(row.low)} to ${percent(row.high)}, ${row.played} episodes of ${row.levels} levels${row.flagged ? "; more than 2 % failed or are missing" : ""}`);
  });
  return figure("Success, with 95 % interval", width, y + 14, ...lines, ...shapes);
}

/* How many turns episodes took, solved ones in colour: a row of bars for each agent. */
function turnsPlot(chosen) {
  const most = Math.max(1, ...chosen.map((each) => each.turns)), high = 46, left = 136, each = Math.min(44, 250 / most), shapes = [];
  let y = 0;
  for (const agent of agents().filter((agent) => chosen.some((each) => each.agent === agent))) {
    const own = chosen.filter((episode) => episode.agent === agent), counts = Array.from({ length: most + 1 }, () => [0, 0]);
    for (const episode of own) counts[episode.turns][episode.success]++;
    const top = Math.max(1, ...counts.map(([not, yes]) => not + yes));
    shapes.push(words(cut(agent, 19), 0, y + high - 4, { class: "label" }));
    counts.forEach(([not, yes], turns) => {
      const x = left + (turns - 1) * each, tall = (count) => (count / top) * (high - 8);
      if (!turns || !(not + yes)) return;
      shapes.push(hint(shape("g", {}, shape("rect", { x: x + 2, y: y + high - tall(yes), width: each - 4, height: tall(yes), fill: colour(agent) }),
        shape("rect", { x: x + 2, y: y + high - tall(yes + not), width: each - 4, height: tall(not), fill: colour(agent), opacity: 0.28 })),
        `${agent}: ${not + yes} episodes of ${turns} turns, ${yes} solved`));
    });
    shapes.push(shape("path", { d: `M${left} ${y + high}h${most * each}`, class: "grid" }));
    y += high + 6;
  }
  for (let turns = 1; turns <= most; turns += Math.ceil(most / 12)) shapes.push(words(turns, left + (turns - 0.5) * each, y + 8, { "text-anchor": "middle" }));
  return figure("Turns of an episode, solved ones in full colour", 410, y + 14, ...shapes);
}

/* The share that is solved by the end of each turn. */
function solvedPlot(chosen) {
  const most = Math.max(1, ...chosen.map((each) => each.turns)), width = 410, left = 40, bottom = 150;
  const x = (turn) => left + (turn / most) * (width - left - 12), y = (share) => bottom - share * (bottom - 8);
  const grid = [0, 0.5, 1].map((share) => shape("g", {}, shape("path", { d: `M${left} ${y(share)}H${width - 12}`, class: "grid" }), words(`${100 * share} %`, left - 6, y(share) + 4, { "text-anchor": "end" })));
  for (let turn = 1; turn <= most; turn += Math.ceil(most / 12)) grid.push(words(turn, x(turn), bottom + 14, { "text-anchor": "middle" }));
  const curves = agents().filter((agent) => chosen.some((each) => each.agent === agent)).map((agent) => {
    const own = chosen.filter((each) => each.agent === agent);
    const at = Array.from({ length: most + 1 }, (_, turn) => own.filter((each) => each.success && each.turns <= turn).length / own.length);
    const path = at.map((share, turn) => `${turn ? "L" : "M"}${x(turn).toFixed(1)} ${y(share).toFixed(1)}`).join("");
    return hint(shape("path", { d: path, fill: "none", stroke: colour(agent), "stroke-width": 2.2 }), `${agent}: ${percent(at.at(-1))} in the end`);
  });
  return figure("Solved by turn", width, bottom + 20, ...grid, ...curves);
}

/* The share of episodes with each kind of error. A click shows them. */
function errorsPlot(chosen) {
  const left = 136, width = 410, bar = 7, shapes = [];
  const kinds = page.errors.filter((kind) => chosen.some((each) => each.errors.includes(kind)));
  if (!kinds.length) return figure("Share of episodes with an error", width, 30, words(chosen.length ? `None of the ${chosen.length} episodes had one.` : "No episode was played to an end.", 0, 20));
  const gap = agents().length * bar + 9, bottom = kinds.length * gap;
  const [x, lines] = shares(left, width - 24, 0, bottom);
  kinds.forEach((kind, i) => {
    shapes.push(words(kind, 0, i * gap + gap / 2 + 2, { class: "label" }));
    agents().forEach((agent, j) => {
      const own = chosen.filter((each) => each.agent === agent);
      if (!own.length) return;
      const share = own.filter((each) => each.errors.includes(kind)).length / own.length;
      const rect = shape("rect", { x: left, y: i * gap + j * bar + 2, width: Math.max(0.5, x(share) - left), height: bar - 1, fill: colour(agent), class: "pick" });
      rect.onclick = () => choose({ agent, problem: kind, outcome: "" });
      shapes.push(hint(rect, `${agent}: ${percent(share)} of ${own.length} episodes`));
    });
  });
  return figure("Share of episodes with an error", width, bottom + 20, ...lines, ...shapes);
}

function drawPlots() {
  const box = $("#plots div"), task = form.task.value;
  box.closest("details").hidden = !page.rows.some((row) => row.played);  // nothing to draw
  if (box.closest("details").hidden || !box.closest("details").open) return;
  const chosen = episodes.filter((each) => !each.failure && (!task || each.task === task)), rows = page.rows.filter((row) => !task || row.task === task);
  const legend = el("p", { className: "legend" }, ...agents().map((agent) => el("span", {}, el("i", { style: `background:${colour(agent)}` }), agent)), task ? el("b", {}, bare(task)) : null);
  box.replaceChildren(legend, successPlot(rows), errorsPlot(chosen), turnsPlot(chosen), solvedPlot(chosen));
}

/* Sets filters and shows the first episode that they leave. */
function choose(wanted) {
  for (const [name, value] of Object.entries(wanted)) form[name].value = value;
  filter();
  show(listed[0]);
  $("#browser").scrollIntoView({ behavior: "smooth" });
}
