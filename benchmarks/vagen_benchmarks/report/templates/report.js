"use strict";
const page = JSON.parse(document.getElementById("page").textContent);
const $ = (selector) => document.querySelector(selector);
const ROW = 40;
const episodes = page.episodes.map(([task, agent, seed, repeat, failure, success, score, turns, problems, errors], number) =>
  ({ number, task, agent, seed, repeat, failure, success, score, turns, problems, errors: errors.map((i) => page.errors[i]) }));
const tasks = new Map(page.protocol.tasks.map((task) => [task.label, task]));
for (const episode of episodes) episode.key = keyOf(episode, episode.agent);
const byKey = new Map(episodes.map((episode) => [episode.key, episode]));
let listed = [], current = null, turnAt = 0, drawing = 0, playing = 0;

function keyOf(episode, agent) {
  const again = episode.repeat ? ` #${episode.repeat}` : "";
  return `${agent} | ${episode.task} | ${tasks.get(episode.task)?.split} ${episode.seed}${again}`;
}
function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) name in node ? (node[name] = value) : node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const percent = (rate) => (rate === null ? "–" : `${(100 * rate).toFixed(rate > 0 && rate < 0.1 ? 1 : 0)} %`);
const number = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const short = (count) => (count < 10000 ? String(count) : count < 1e7 ? `${Math.round(count / 1e3)}k` : `${Math.round(count / 1e6)}M`);
const outcome = (episode) => (episode.failure ? "failed" : episode.success ? "solved" : "unsolved");
const outcomeWord = { failed: "failed", solved: "solved", unsolved: "not solved" };
/* A name that lines may break behind `/`, as in openrouter:meta-llama/Llama-4. */
const breakable = (name) => name.split(/(?<=\/)/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));
const bare = (task) => page.names[task] ?? task.replace(/^vagen\//, "");

/* ---- the table -------------------------------------------------------------------------------- */

function interval(row) {
  const width = 80, y = 8, x = (rate) => 3 + rate * (width - 6);
  const svg = shape("svg", { width, height: 16, role: "img" });
  svg.append(shape("rect", { x: 3, y: y - 4, width: width - 6, height: 8, rx: 2, fill: "var(--line)", opacity: 0.6 }));
  if (row.success !== null) {
    svg.append(shape("rect", { x: 3, y: y - 4, width: row.success * (width - 6), height: 8, rx: 2, fill: "var(--bar)", opacity: 0.45 }));
    svg.append(shape("path", { d: `M${x(row.low)} ${y - 3}v6m0-3H${x(row.high)}m0-3v6`, stroke: "var(--ink)", fill: "none", "stroke-width": 1.3 }));
  }
  return svg;
}

function drawTable() {
  // Each environment has metrics of its own; a column for each of all of them would not fit a page.
  const own = page.rows.some((row) => Object.keys({ ...row.metrics, ...row.labels }).length);
  const spent = page.rows.some((row) => row.completion_tokens), priced = page.rows.some((row) => row.dollars !== null), cached = page.rows.some((row) => row.cached_tokens);
  const judged = page.rows.some((row) => row.judged.grounding != null || row.judged.world_modeling != null);
  const head = [["Environment", "name"], ["Agent", "name"], ["Success, 95 % interval", "name"], "Return", "Turns", "Valid", "Effective", "Format", ...(judged ? ["Grounding", "Prediction"] : []), "Failed", "Played", "Levels", ...(spent ? ["Tokens in, out", ...(cached ? ["Cached"] : []), ...(priced ? ["Cost"] : []), "Seconds a reply", ["Served by", "name"]] : []), ...(own ? [["Own metrics", "name"]] : [])];
  const named = head.map((name) => (Array.isArray(name) ? name : [name, ""]));
  $("#results thead").append(el("tr", {}, ...named.map(([name, kind], i) => {
    const th = el("th", { className: kind, title: `${meaning[name] ?? ""}${meaning[name] ? "\n" : ""}Click to sort.`, tabIndex: 0 }, name);
    th.onclick = () => sortBy(i, th);
    th.onkeydown = (event) => event.key === "Enter" && sortBy(i, th);
    return th;
  })));
  let last = null;
  for (const row of page.rows) {
    const failures = Object.entries(row.failures).map(([kind, count]) => `${kind}: ${count}`).join(", ");
    const tr = el("tr", { title: Object.entries(row.problems).map(([code, count]) => `${code}: ${count} turns`).join("\n") },
      el("td", { className: "name task" }, el("span", { className: row.task === last ? "again" : "" }, bare(row.task))),
      el("td", { className: "name agent" }, ...breakable(row.agent)),
      el("td", { className: "name" }, interval(row), el("span", { className: "rate" }, percent(row.success) + (row.flagged && row.played ? "‡" : "")),
        el("span", { className: "range" }, row.played ? `${(100 * row.low).toFixed(0)} – ${(100 * row.high).toFixed(0)}` : "")),
      el("td", { title: row.played ? `95 %: ${number(row.return_low)} to ${number(row.return_high)}` : "" }, number(row.return)),
      ...[number(row.turns, 1), percent(row.valid), percent(row.effective), percent(row.well_formed)].map((text) => el("td", {}, text)),
      ...(judged ? [row.judged.grounding, row.judged.world_modeling].map((value) => el("td", {}, number(value))) : []),
      el("td", { className: row.failed ? "some" : "zero", title: failures }, String(row.failed)),
      el("td", { title: row.missing ? `${row.missing} more were planned and never played` : "" }, String(row.played) + (row.missing ? ` of ${row.played + row.failed + row.missing}` : "")),
      el("td", { title: `${number(row.independent_plays, 0)} independent episodes would be as informative` }, String(row.levels)),
      ...(spent ? [el("td", { title: row.counted_by_us ? `estimated for ${row.counted_by_us} replies whose endpoint reports no usage` : "" }, row.completion_tokens ? `${row.counted_by_us ? "≈ " : ""}${short(row.prompt_tokens)} / ${short(row.completion_tokens)}` : "–"),
        ...(cached ? [el("td", {}, row.prompt_tokens ? percent(row.cached_tokens / row.prompt_tokens) : "–")] : []), ...(priced ? [el("td", {}, row.dollars === null ? "–" : `$${row.dollars.toFixed(4)}`)] : []), el("td", { title: row.seconds_p95 === null ? "" : `median; 95 % within ${number(row.seconds_p95)} s` }, number(row.seconds_median)),
        el("td", { className: "name served", title: Object.entries(row.served).map(([name, count]) => `${name}: ${count} replies`).join("\n") }, ...breakable((Object.keys(row.served).length > 1 ? "≠ " : "") + (Object.keys(row.served).join(", ") || "–")))] : []),
      ...(own ? [el("td", { className: "name own" }, [...Object.entries(row.metrics).map(([name, value]) => `${name.replaceAll("_", " ")} ${number(value, Number.isInteger(value) || value > 100 ? 0 : 3)}`), ...Object.entries(row.labels).map((label) => label.join(" "))].join(", "))] : []));
    for (const [i, td] of [...tr.children].entries()) td.dataset.label = named[i][0];
    tr.onclick = () => choose({ task: row.task, agent: row.agent, outcome: "", problem: "" });
    tr.dataset.cell = `${row.agent}|${row.task}`;
    tr.dataset.place = $("#results > .wide tbody").children.length;
    last = row.task;
    $("#results > .wide tbody").append(tr);
  }
}

const meaning = {
  "Success, 95 % interval": "Share of the played episodes that were solved, with an interval clustered by level.",
  Return: "Mean sum of an episode's rewards.",
  Turns: "Mean number of replies in an episode.",
  Valid: "Share of turns whose actions could all be read.",
  Effective: "Share of turns in which an action changed something.",
  Format: "Share of turns written as the prompt asks.",
  Grounding: "Mean judge score of the stated observations; – where none was judged.",
  Prediction: "Mean judge score of the stated predictions; – where none was judged.",
  Cached: "Share of prompt tokens that the endpoint read from its cache.",
  "Seconds a reply": "Median seconds of a reply, waiting and failed attempts included.",
  "Served by": "The model that answered, as the endpoint names it; ≠ if there were several.",
  Failed: "Episodes ended by an endpoint, a simulator or the network; they have no score.",
  Played: "Episodes played to an end.",
  Levels: "Distinct levels among them: repeats of a level are less informative than new levels.",
};
/* Rows by a column, largest first for numbers; a third click brings back the order of the run. */
function sortBy(column, th) {
  const body = $("#results > .wide tbody"), next = { none: "descending", descending: "ascending", ascending: "none" }[th.ariaSort ?? "none"];
  for (const each of th.parentNode.children) each.ariaSort = "none";
  th.ariaSort = next;
  const value = (tr) => { const text = tr.children[column].textContent.replace(/^[≈$ ]+/, ""), said = parseFloat(text); return Number.isNaN(said) || th.className === "name" && column < 2 ? text : said; };
  const compare = (one, other) => (typeof one === "number" && typeof other === "number" ? one - other : typeof one !== typeof other ? (typeof one === "number" ? 1 : -1) : other.localeCompare(one));
  const rows = [...body.children].sort((one, other) => one.dataset.place - other.dataset.place);
  if (next !== "none") rows.sort((one, other) => compare(value(one), value(other)) * (next === "descending" ? -1 : 1));
  body.classList.toggle("sorted", next !== "none");
  body.replaceChildren(...rows);
}

function drawErrors() {
  const names = Object.keys(page.rows[0]?.errors ?? {}), most = Math.max(0, ...page.rows.map((row) => row.solved_by_turn.length));
  const ks = [...new Set(page.rows.flatMap((row) => Object.keys(row.pass_at)))], turns = Array.from({ length: most }, (_, i) => i);
  const heat = (share, kind) => { const cell = el("td", { className: `heat ${kind}` }, percent(share ?? null)); cell.style.setProperty("--share", share ?? 0); return cell; };
  const by = (row, i) => row.solved_by_turn[Math.min(i, row.solved_by_turn.length - 1)] ?? 0;
  $("#errors div").append(el("table", {},
    el("thead", {}, el("tr", {}, ...["", ""].map(() => el("th")), el("th", { className: "group", colSpan: names.length }, "share of episodes with"), el("th", { className: "group", colSpan: most }, "solved by turn"), el("th", { className: "group", colSpan: ks.length }, ks.length ? "pass@k" : "")),
      el("tr", {}, el("th", { className: "name" }, "Environment"), el("th", { className: "name" }, "Agent"), ...[...names, ...turns.map((i) => String(i + 1)), ...ks].map((name) => el("th", { title: page.counted[name] ?? "" }, name)))),
    el("tbody", {}, ...page.rows.map((row) => el("tr", {}, el("td", { className: "name task" }, bare(row.task)), el("td", { className: "name agent" }, ...breakable(row.agent)),
      ...names.map((name) => heat(row.errors[name], "")), ...turns.map((i) => heat(row.played ? by(row, i) : null, "good")), ...ks.map((k) => el("td", { title: row.pass_at_bounds[k] ? `95 %: ${row.pass_at_bounds[k].map(percent).join(" to ")}` : "" }, percent(row.pass_at[k] ?? null))))))));
  const counted = Object.entries(Object.keys(page.counted).reduce((by, name) => ({ ...by, [page.counted[name]]: [...(by[page.counted[name]] ?? []), name] }), {}));
  $("#errors div").append(...counted.map(([how, kinds]) => el("p", { className: "feedback" }, `${kinds.join(", ")}: ${how}.`)));
  drawTurns();
}

function drawTurns() {
  const shown = ["well_formed", "valid", "effective"], head = ["Turn", "Played", "Well-formed", "Valid", "Effective", "Reward", ...(page.judged ? ["Grounding", "Prediction"] : [])];
  const line = (row, each, i) => el("tr", {}, el("td", { className: "name task" }, i ? "" : bare(row.task)), el("td", { className: "name" }, i ? "" : row.agent),
    el("td", {}, String(i + 1)), el("td", {}, String(each.turns)), ...shown.map((name) => el("td", {}, percent(each[name]))), el("td", {}, number(each.reward)),
    ...(page.judged ? [each.grounding, each.world_modeling].map((value) => el("td", {}, number(value))) : []));
  $("#turns div").append(el("table", {}, el("thead", {}, el("tr", {}, el("th", { className: "name" }, "Environment"), el("th", { className: "name" }, "Agent"), ...head.map((name) => el("th", {}, name)))),
    el("tbody", {}, ...page.rows.flatMap((row) => row.by_turn.map((each, i) => line(row, each, i))))));
}

/* ---- the list --------------------------------------------------------------------------------- */

const form = $("#filters");
function drawFilters() {
  const fill = (name, label, values, word = (value) => value) =>
    form[name].append(el("option", { value: "" }, label), ...values.map((value) => el("option", { value }, word(value))));
  const agents = [...new Set(episodes.map((episode) => episode.agent))];
  fill("task", "all environments", [...new Set(episodes.map((episode) => episode.task))], bare);
  fill("agent", "all agents", agents);
  const group = (label, values) => values.length && form.problem.append(el("optgroup", { label }, ...values.map((value) => el("option", { value }, value))));
  fill("problem", "any error", []);
  group("errors", page.errors.filter((kind) => episodes.some((episode) => episode.errors.includes(kind))));
  group("problems of replies", [...new Set(episodes.flatMap((episode) => episode.problems))].sort());
  group("failed by", [...new Set(episodes.map((episode) => episode.failure).filter(Boolean))].sort());
  fill("beside", "compare with: nothing", agents, (agent) => `compare with ${agent}, same seed`);
  form.beside.hidden = agents.length < 2;
  form.oninput = async (event) => {
    if (event.target.name === "beside") return show(current, turnAt);
    if (event.target.name === "words" && !(await search(event.target.value))) return;
    filter();
    if (!listed.includes(current)) show(listed[0]);
  };
  form.onsubmit = (event) => event.preventDefault();
}
/* Which episodes have these words in a reply or in what came back; false if others were asked for meanwhile. */
let found = null, searching = 0;
async function search(words) {
  const mine = ++searching, wanted = words.trim().toLowerCase();
  await new Promise((done) => setTimeout(done, 150));
  if (mine !== searching) return false;
  if (!wanted) { found = null; return true; }
  const hits = new Set(), says = (turn) => `${turn.reply}\n${turn.result.text}\n${turn.observed.text}`.toLowerCase();
  for (let chunk = 0; chunk * page.chunk < episodes.length; chunk++) {
    for (const [i, data] of (await unpack(chunk)).entries()) if (data.turns.some((turn) => says(turn).includes(wanted))) hits.add(chunk * page.chunk + i);
    if (mine !== searching) return false;
  }
  found = hits;
  return true;
}
const orders = {
  level: () => 0,
  return: (one, other) => (other.failure ? -Infinity : other.score) - (one.failure ? -Infinity : one.score) || 0,
  turns: (one, other) => other.turns - one.turns,
};
const places = new Map(page.protocol.tasks.map((task, i) => [task.label, i]));
const byLevel = (one, other) => places.get(one.task) - places.get(other.task) || one.seed - other.seed || one.repeat - other.repeat || one.number - other.number;
function filter() {
  const want = Object.fromEntries(new FormData(form));
  listed = [...episodes].sort((one, other) => orders[want.order](one, other) || byLevel(one, other)).filter((episode) =>
    (!found || found.has(episode.number)) &&
    (!want.task || episode.task === want.task) && (!want.agent || episode.agent === want.agent) &&
    (!want.outcome || outcome(episode) === want.outcome) &&
    (!want.problem || episode.errors.includes(want.problem) || episode.problems.includes(want.problem) || episode.failure === want.problem) &&
    (!want.seed || String(episode.seed) === want.seed.trim()));
  const solved = listed.filter((episode) => episode.success).length;
  $("#count").textContent = `${listed.length} episodes, ${solved} solved`;
  $("#rows").style.height = `${listed.length * ROW}px`;
  for (const tr of document.querySelectorAll("#results tbody tr")) tr.classList.toggle("picked", tr.dataset.cell === `${want.agent}|${want.task}`);
  drawRows();
  drawPlots();
}
function drawRows() {
  const list = $("#list"), first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
  const rows = listed.slice(first, first + Math.ceil(list.clientHeight / ROW) + 10).map((episode, i) => {
    const row = el("div", { className: `row${episode === current ? " picked" : ""}`, role: "option" },
      el("span", { className: `dot ${outcome(episode)}`, title: outcomeWord[outcome(episode)] }),
      el("span", {}, bare(episode.task)), el("span", {}, episode.failure ? "no score" : number(episode.score)),
      el("small", {}, [`seed ${episode.seed}${episode.repeat ? ` #${episode.repeat}` : ""}`, episode.agent, `${episode.turns} turns`, episode.failure || episode.errors.filter((kind) => kind !== "budget").join(", ")].filter(Boolean).join(" · ")));
    row.style.top = `${(first + i) * ROW}px`;
    row.onclick = () => show(episode);
    return row;
  });
  $("#rows").replaceChildren(...rows);
}
function reveal() {
  const list = $("#list"), top = listed.indexOf(current) * ROW;
  if (top < 0) return;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
}

/* ---- an episode ------------------------------------------------------------------------------- */

const unpacked = new Map(), parts = {};
/* A part of the page itself or, of a report that is a folder, a script beside it: a page from a file may read no other. */
function packedText(id) {
  if (!page.beside) return Promise.resolve(document.getElementById(id).textContent);
  return new Promise((done, fail) => {
    const script = el("script", { src: `${id}.js` });
    script.onload = () => { done(parts[id]); delete parts[id]; script.remove(); };
    script.onerror = () => { $("#unread").hidden = false; fail(new Error(`${id}.js can't be read`)); };
    document.head.append(script);
  });
}
function pictureSource(id) {
  const kind = page.pictures[id];
  if (!kind) return null;
  return page.beside ? `p${id}.${kind}` : `data:image/${kind};base64,${document.getElementById(`p${id}`).textContent}`;
}
function unpack(chunk) {
  if (!unpacked.has(chunk)) {
    unpacked.set(chunk, packedText(`c${chunk}`).then((text) => {
      const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
      return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
    }));
  }
  return unpacked.get(chunk);
}
const load = async (episode) => (await unpack(Math.floor(episode.number / page.chunk)))[episode.number % page.chunk];

async function show(episode, turn = 0) {
  const mine = ++drawing;
  current = episode ?? null;
  if (!current) { $("#viewer").replaceChildren(el("p", { className: "empty" }, "No episode matches the filters.")); drawRows(); return; }
  const other = form.beside.value && form.beside.value !== current.agent ? byKey.get(keyOf(current, form.beside.value)) : null;
  const shown = [current, other].filter(Boolean);
  const loaded = await Promise.all(shown.map(load));
  if (mine !== drawing) return;  // another was asked for meanwhile
  turnAt = Math.max(0, Math.min(turn, Math.max(...loaded.map((data) => data.turns.length)) - 1));
  $("#viewer").className = shown.length > 1 ? "pair" : "";
  $("#viewer").replaceChildren(...shown.map((each, i) => panel(each, loaded[i])));
  reveal();
  drawRows();
  const beside = form.beside.value ? `&beside=${encodeURIComponent(form.beside.value)}` : "";
  history.replaceState(null, "", `#episode=${encodeURIComponent(current.key)}&turn=${turnAt + 1}${beside}`);
}

function panel(episode, data) {
  const state = outcome(episode), at = Math.min(turnAt, data.turns.length - 1), turn = data.turns[at];
  const play = el("button", { className: "play", title: "play the turns (space)", disabled: data.turns.length < 2 }, playing ? "pause" : "play");
  play.onclick = () => (playing ? pause() : playOn());
  const link = el("button", { className: "link", title: "copy a link to this turn" }, "copy link");
  link.onclick = () => navigator.clipboard?.writeText(location.href).then(() => { link.textContent = "copied"; });
  const steps = data.turns.map((each, i) => {
    const mark = each.metrics.success ? "good" : each.metrics.action_is_valid ? "" : "bad";
    const button = el("button", { className: i === at ? "now" : "" }, String(i + 1), el("i", { className: mark }));
    button.onclick = () => show(current, i);
    return button;
  });
  const move = (label, by) => { const button = el("button", { disabled: !data.turns[turnAt + by] }, label); button.onclick = () => show(current, turnAt + by); return button; };
  return el("article", { className: "panel" },
    el("h2", {}, `${bare(episode.task)}, seed ${episode.seed}`, el("span", { className: `badge ${state}` }, outcomeWord[state])),
    el("p", { className: "meta" }, el("b", {}, episode.agent), episode.failure ? " · no score" : ` · return ${number(episode.score)}`, ` · ${data.turns.length} turns`, data.level ? ` · level ${data.level.content.slice(0, 10)}` : ""),
    data.ended.message ? el("p", { className: `notice ${episode.failure ? "bad" : ""}` }, el("b", {}, `${data.ended.kind}: `), data.ended.message) : null,
    el("div", { className: "steps" }, move("◀", -1), ...steps, move("▶", 1), play, link),
    turn ? drawTurn(turn, tasks.get(episode.task)) : el("p", { className: "empty" }, "The episode ended before its first turn."));
}

function drawTurn(turn, task) {
  const left = el("div", {}, pictures(turn), el("h3", {}, "Actions"), ...actions(turn), el("h3", {}, "Reward"), rewards(turn), metrics(turn));
  const summary = turn.summary ? [el("h3", {}, "Summary written before this turn, instead of the earlier turns"), el("pre", {}, turn.summary)] : [];
  const right = el("div", {}, ...summary, el("h3", {}, "Reply"), reply(turn), problems(turn), cost(turn), verdicts(turn), el("h3", {}, "State before and after"), ...states(turn));
  const asked = el("details", {}, el("summary", {}, "Observation as sent to the agent"), el("pre", {}, turn.observed.text));
  const told = el("details", {}, el("summary", {}, "Next observation"), el("pre", {}, turn.result.text));
  const system = el("details", {}, el("summary", {}, "System prompt"), el("pre", {}, task?.system_prompt ?? ""));
  right.append(asked, told, system);
  return el("div", { className: "turn" }, left, right);
}

function pictures(turn) {
  const figure = (observation, caption) => {
    const source = observation.picture && pictureSource(observation.picture.sha256.slice(0, 20));
    if (!source) return null;
    const [height, width] = observation.picture.shape;
    return el("figure", {}, el("img", { src: source, className: width < 300 ? "small" : "", alt: caption, width, height, style: `aspect-ratio:${width}/${height};height:auto` }), el("figcaption", {}, caption));
  };
  const before = figure(turn.observed, "before"), after = figure(turn.result, "after");
  return before || after ? el("div", { className: "pictures" }, before, "→", after) : el("div", { className: "texts" }, ...[["before", turn.observed], ["after", turn.result]].map(([caption, observation]) => el("div", {}, el("h3", {}, `Observation ${caption}`), el("pre", {}, observation.text))));
}

function actions(turn) {
  const chips = turn.executed.map((each) => el("span", { className: `chip ${each.effective ? "done" : "idle"}`, title: each.effective ? "executed" : "executed, changed nothing" }, each.text));
  for (const left of turn.parsed.actions.slice(turn.executed.length)) chips.push(el("span", { className: "chip cut", title: "the episode ended before it" }, left.text));
  const points = codePoints(turn.reply);
  for (const problem of turn.parsed.problems) {
    const kind = { unknown_action: "refused", bad_argument: "refused", too_many_actions: "cut" }[problem.code];
    if (kind) chips.push(el("span", { className: `chip ${kind}`, title: problem.message }, turn.reply.slice(points(problem.start), points(problem.end)).trim()));
  }
  const said = turn.executed.map((each) => each.feedback).filter(Boolean).map((text) => el("p", { className: "feedback" }, text));
  const ended = turn.terminated || turn.truncated ? [el("p", { className: "feedback" }, turn.metrics.success ? "Solved: the episode ends." : turn.terminated ? "Lost: the episode ends." : "The turn budget is spent: the episode is truncated.")] : [];
  return [el("div", {}, ...(chips.length ? chips : [el("span", { className: "zero" }, "none")])), ...said, ...ended];
}

function rewards(turn) {
  const sum = turn.rewards.reduce((total, term) => total + term.value, 0);
  const signed = (value) => (value > 0 ? "+" : "") + number(value);
  return el("table", { className: "terms" }, ...turn.rewards.map((term) => el("tr", {}, el("td", {}, term.name.replaceAll("_", " ")), el("td", {}, signed(term.value)))),
    el("tr", {}, el("td", {}, "turn"), el("td", {}, signed(sum))));
}

function metrics(turn) {
  const own = Object.entries(turn.own);
  return own.length ? el("p", { className: "feedback" }, own.map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "number" ? number(value, 3) : value}`).join(" · ")) : null;
}

function verdicts(turn) {
  if (!turn.verdicts.length) return null;
  const rows = turn.verdicts.map(({ part, value, reason }) => {
    const kind = value === null || value === undefined ? "idle" : value >= 0.5 ? "done" : "refused";
    return el("li", {}, el("span", { className: `chip verdict ${kind}` }, kind === "idle" ? "unscored" : number(value)), el("b", { className: part === "grounding" ? "observation" : "prediction" }, part === "grounding" ? "observation " : "prediction "), reason);
  });
  return el("div", {}, el("h3", {}, "Judge"), el("ul", { className: "verdicts" }, ...rows));
}

/* Problems' spans count code points, JavaScript's strings count UTF-16 units. */
function codePoints(text) {
  if (!/[\ud800-\udbff][\udc00-\udfff]/.test(text)) return (at) => at;
  const starts = [0];
  for (const char of text) starts.push(starts.at(-1) + char.length);
  return (at) => starts[Math.min(at, starts.length - 1)];
}

function reply(turn) {
  const text = turn.reply, points = codePoints(text);
  const spans = turn.parsed.problems.map((problem) => [points(problem.start), points(problem.end), problem.message]).filter(([start, end]) => end > start && end - start < text.length);
  const tags = [...text.matchAll(/<(\/?)(think|observation|reasoning|prediction|answer)>/gi)];
  const edges = new Set([0, text.length]);
  for (const tag of tags) edges.add(tag.index).add(tag.index + tag[0].length);
  for (const [start, end] of spans) edges.add(start).add(end);
  const sorted = [...edges].filter((edge) => edge <= text.length).sort((a, b) => a - b);
  const out = el("pre", { className: "reply" }), open = [];
  let next = 0;
  for (let i = 0; i + 1 < sorted.length; i++) {
    const [start, end] = [sorted[i], sorted[i + 1]];
    while (next < tags.length && tags[next].index + tags[next][0].length <= start) {
      const name = tags[next][2].toLowerCase();
      if (!tags[next][1]) open.push(name);
      else if (open.includes(name)) open.length = open.lastIndexOf(name);
      next++;
    }
    const inTag = next < tags.length && tags[next].index <= start;
    const problem = spans.find(([from, to]) => from <= start && end <= to);
    const kind = inTag ? `tag ${tags[next][2].toLowerCase()}` : open.at(-1) ?? "outside";
    const span = el("span", { className: kind + (problem ? " problem" : "") }, text.slice(start, end));
    if (problem) span.title = problem[2];
    out.append(span);
  }
  if (!text) out.append(el("span", { className: "outside" }, "(an empty reply)"));
  return out;
}
const problems = (turn) => el("ul", { className: "problems" }, ...turn.parsed.problems.map((problem) => el("li", {}, el("code", {}, problem.code), problem.message)));

function cost(turn) {
  const call = turn.call;
  if (!call) return null;
  const facts = [call.ending === "stop" ? null : call.ending, call.said, call.served && `by ${call.served}`, `${call.seconds.toFixed(2)} s`, call.attempts > 1 ? `${call.attempts} attempts` : null,
    call.completion_tokens === null ? null : `${call.estimated ? "≈ " : ""}${call.prompt_tokens} tokens in, ${call.completion_tokens} out`,
    call.cached_tokens ? `${call.cached_tokens} from a cache` : null, call.dollars ? `$${call.dollars.toFixed(5)}` : null];
  const line = el("p", { className: "feedback" }, facts.filter(Boolean).join(" · "));
  if (!call.reasoning) return line;
  return el("div", {}, line, el("details", {}, el("summary", {}, "Hidden reasoning"), el("pre", {}, call.reasoning)));
}

function states(turn) {
  const [before, after] = turn.states, grids = [];
  if (before.grid !== null && after.grid !== null) {
    const marked = (text, other) => el("pre", {}, ...[...text].map((char, i) => (char === other[i] ? char : el("mark", {}, char))));
    grids.push(el("div", { className: "states" }, marked(before.grid, after.grid), marked(after.grid, before.grid)));
  }
  const rows = Object.keys(after.fields).map((name) => {
    const changed = before.fields[name] !== after.fields[name];
    const cell = (text) => el("td", {}, el("div", {}, text));
    return el("tr", { className: changed ? "changed" : "" }, el("th", {}, name.replaceAll("_", " ")), cell(before.fields[name]), cell(changed ? after.fields[name] : "same"));
  });
  const table = el("table", { className: "fields" }, ...rows);
  return grids.length ? [...grids, el("details", {}, el("summary", {}, "Fields"), table)] : [table];
}

/* ---- playing ---------------------------------------------------------------------------------- */

async function playOn() {
  const mine = ++playing, episode = current, { turns } = await load(episode);
  await show(episode, turnAt + 1 < turns.length ? turnAt : 0);
  const next = async () => {
    if (playing !== mine || current !== episode) return;
    if (turnAt + 1 >= turns.length) { pause(); return; }
    await show(episode, turnAt + 1);
    setTimeout(next, 900);
  };
  setTimeout(next, 900);
}
function pause() { playing = 0; show(current, turnAt); }

/* ---- keys and links --------------------------------------------------------------------------- */

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea") || !current) return;
  if (event.key === " " && !event.target.closest("button, summary")) { event.preventDefault(); playing ? pause() : playOn(); return; }
  const at = listed.indexOf(current);
  const turns = { ArrowLeft: turnAt - 1, ArrowRight: turnAt + 1 }[event.key];
  const rows = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: Math.max(0, at - 10), PageDown: Math.min(listed.length - 1, at + 10) }[event.key];
  if (turns === undefined && rows === undefined) return;
  event.preventDefault();
  playing = 0;
  if (turns !== undefined) show(current, turns);
  else if (listed[rows]) show(listed[rows]);
});
function fromLink() {
  const wanted = new URLSearchParams(location.hash.slice(1)), episode = byKey.get(wanted.get("episode"));
  if (!episode) return false;
  form.beside.value = wanted.get("beside") ?? "";
  show(episode, Number(wanted.get("turn") ?? 1) - 1);
  return true;
}
window.addEventListener("hashchange", fromLink);
$("#list").addEventListener("scroll", drawRows);
window.addEventListener("resize", drawRows);
drawTable();
drawErrors();
drawFilters();
$("#plots").addEventListener("toggle", drawPlots);
filter();
if (fromLink()) $("#browser").scrollIntoView();
else show(listed[0]);
